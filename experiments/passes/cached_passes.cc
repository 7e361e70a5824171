// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/cached_passes.h"

#include <algorithm>
#include <list>

namespace tare {
namespace {

// Tokens of a batch that go through one cache.
struct Piece {
  SequenceCache* cache = nullptr;
  int64_t index = 0;
  int64_t row = 0, end = 0;  // of the batch: what is left of it
};

using Body = std::function<void(const TokenBatch& pass, const std::vector<int64_t>& rows)>;

void RunPieces(Model& model, SiteVisitors visitors, const TokenBatch& whole, std::vector<Piece>& pieces,
               const Body& body) {
  while (true) {
    TokenBatch pass;
    std::vector<int64_t> rows;
    for (Piece& piece : pieces) {
      const int64_t count = std::min(piece.cache->TokensAtOnce(), piece.end - piece.row);
      if (count == 0) continue;
      const auto first = static_cast<size_t>(piece.row);
      pass.AddAfter(*piece.cache, piece.index, std::span(whole.tokens).subspan(first, static_cast<size_t>(count)));
      for (int64_t i = 0; i < count; ++i) rows.push_back(piece.row++);
    }
    if (rows.empty()) return;
    model.Forward(pass, visitors);
    body(pass, rows);
  }
}

}  // namespace

void PassThroughCaches(Model& model, SiteVisitors visitors, const TokenBatch& whole, const CachePlan& plan,
                       const Body& body) {
  std::list<SequenceCache> caches;
  std::vector<Piece> prefixes, branches;
  for (const AttentionSequence& s : whole.sequences) {
    SequenceCache& cache = caches.emplace_back(model.config(), plan);
    cache.ExpectPrompt(s.prefix);
    prefixes.push_back({&cache, s.index, s.first_row, s.first_row + s.prefix});
  }
  RunPieces(model, visitors, whole, prefixes, body);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const AttentionSequence& s = whole.sequences[i];
    int64_t row = s.first_row + s.prefix;
    for (const int64_t tokens : s.branches) {
      SequenceCache& fork = caches.emplace_back(*prefixes[i].cache);
      branches.push_back({&fork, s.index, row, row + tokens});
      row += tokens;
    }
  }
  RunPieces(model, visitors, whole, branches, body);
}

}  // namespace tare
