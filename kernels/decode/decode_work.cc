// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decode_work.h"
#include "quant/base/integers.h"

namespace tare {

Cuts::Cuts(const DecodeHeads& table, const DecodeSequence& s) {
  const int64_t seen = s.cache->tokens() - s.newer;               // by the last query
  const int64_t oldest = seen - s.q.tokens + 1 - table.window();  // that the first query sees
  first = table.window() == 0 ? 0 : std::max<int64_t>(0, oldest) / kPageTokens;
  end = s.q.tokens == 0 ? first : std::max(first, CeilDiv(std::max<int64_t>(0, seen), kPageTokens));
  pages = std::max(kFewestPages, CeilDiv(end - first, kMostChunks));
  chunks = CeilDiv(end - first, pages);
  runs = std::clamp<int64_t>(kFewestUnits / std::max<int64_t>(1, chunks), 1, std::ssize(table.groups()));
}

DecodeLayout::DecodeLayout(const DecodeHeads& table, std::span<const DecodeSequence> sequences)
    : table_(table), sequences_(sequences), page_(table.shape(), {}, {}) {
  for (const DecodeSequence& s : sequences) {
    const int64_t queries = QueriesAtOnce(s);
    rounds_ = std::max(rounds_, CeilDiv(s.q.tokens, queries));
    queries_ = std::max(queries_, std::min(queries, s.q.tokens));
    before_rotary_ = before_rotary_ || s.cache->KeysBeforeRotary();
  }
  maps_ = Maps(queries_);
  for (int64_t round = 0; round < rounds_; ++round) {
    for (const DecodeSequence& s : sequences) {
      const Cuts cuts(table, OfRound(s, round));
      units_ = std::max(units_, cuts.chunks * cuts.runs);
    }
  }
}

// The queries of a round. It counts the exponentials of all pages, because the last round sees all.
int64_t DecodeLayout::QueriesAtOnce(const DecodeSequence& s) const {
  const int64_t bytes = Cuts(table_, s).end * table_.rows() * kPageTokens * static_cast<int64_t>(sizeof(float));
  return std::max<int64_t>(1, kMostKeptBytes / std::max<int64_t>(1, bytes));
}

int64_t DecodeLayout::Maps(int64_t queries) const { return RoundUp(table_.rows() * queries, kMapsAtOnce); }

DecodeSequence DecodeLayout::OfRound(const DecodeSequence& s, int64_t round) const {
  const int64_t queries = QueriesAtOnce(s), first = std::min(round * queries, s.q.tokens);
  DecodeSequence part = s;
  part.q.tokens = part.out.tokens = part.lse.tokens = std::min(queries, s.q.tokens - first);
  part.q.data += first * s.q.token_stride;
  part.out.data += first * s.out.token_stride;
  if (s.lse.data != nullptr) part.lse.data += first * s.lse.token_stride;
  if (table_.differential()) part.lambda.data += first * s.lambda.token_stride;
  part.newer = s.newer + s.q.tokens - first - part.q.tokens;
  return part;
}

// Memory for each sequence's largest round, with all pages that any round sees.
std::span<DecodeWork> DecodeLayout::TakePacked(Arena& arena) const {
  const auto count = std::ssize(sequences_);
  auto* list = arena.Take<DecodeWork>(count);
  for (int64_t i = 0; i < count; ++i) {
    const DecodeSequence& s = sequences_[i];
    const Cuts cuts(table_, s);
    const int64_t queries = std::min(QueriesAtOnce(s), s.q.tokens), pages = cuts.end - cuts.first;
    const int64_t maps = Maps(queries);
    const int64_t width = page_.ValuePanels() * kPanelLanes;
    const int64_t parts = cuts.Parts() + (s.sinks.empty() ? 0 : 1);
    const int64_t chunks = std::min(CeilDiv(pages, kFewestPages), kMostChunks);  // of fewer pages, too
    const DecodeWork work{.s = s,
                          .p = arena.Take<float>(pages * table_.rows() * queries * kPageTokens),
                          .max = arena.Take<float>(parts * maps),
                          .sum = arena.Take<float>(parts * maps),
                          .total_max = arena.Take<float>(maps),
                          .inverse = arena.Take<float>(maps),
                          .o = arena.Take<float>(chunks * table_.products() * queries * width)};
    if (arena.end() != arena.used()) list[i] = work;  // not counting alone
  }
  return {list, static_cast<size_t>(count)};
}

DecodeScratch DecodeLayout::TakeScratch(Arena& taken) const {
  const DecodeScratch scratch{taken, *this};
  taken = scratch.arena;
  return scratch;
}

}  // namespace tare
