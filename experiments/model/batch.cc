// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/batch.h"

#include <iterator>

#include "experiments/model/config/family.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Every head of these values, or of rows that are one, if there is no table; of each piece all rows, or some at a time.
void Show(SiteVisitors visitors, Site site, std::optional<int> layer, const TokenBatch& batch,
          const HeadsView<float>& values, std::optional<std::span<const OutputHead>> table) {
  if (!AnyWants(visitors, site, layer)) return;
  constexpr int64_t kRows = 64;
  std::vector<SiteBlock> blocks;
  ForPieces(batch, [&](const AttentionSequence& s, int slot, int64_t row, int64_t position, int64_t count) {
    for (int64_t done = 0; done < count; done += table ? count : kRows) {
      for (int head = 0; head < values.heads; ++head) {
        blocks.push_back({.site = site,
                          .layer = layer,
                          .sequence = s.index,
                          .slot = slot,
                          .head = table ? std::optional(head) : std::nullopt,
                          .map = table ? MapOf(*table, site, head) : std::nullopt,
                          .first_row = position + done,
                          .batch_row = row + done,
                          .rows = table ? count : std::min(kRows, count - done),
                          .first_columns = values.width,
                          .values = values.Row(row + done, head),
                          .stride = values.token_stride});
      }
    }
  });
  if (AnyNeedsSurvey(visitors, site, layer))
    ParallelFor(blocks.size(), [&](size_t i, int thread) { Survey(visitors, blocks[i], thread); });
  ParallelFor(blocks.size(), [&](size_t i, int thread) { Visit(visitors, blocks[i], thread); });
}

}  // namespace

void ForPieces(const TokenBatch& batch,
               const std::function<void(const AttentionSequence&, int, int64_t, int64_t, int64_t)>& body) {
  for (size_t slot = 0; slot < batch.sequences.size(); ++slot) {
    const AttentionSequence& s = batch.sequences[slot];
    body(s, static_cast<int>(slot), s.first_row, s.past, s.prefix);
    int64_t row = s.first_row + s.prefix;
    for (const int64_t tokens : s.branches) {
      body(s, static_cast<int>(slot), row, s.past + s.prefix, tokens);
      row += tokens;
    }
  }
}

void ShowRows(SiteVisitors visitors, Site site, std::optional<int> layer, const TokenBatch& batch, float* rows,
              int64_t columns) {
  Show(visitors, site, layer, batch, DenseHeads(rows, batch.Rows(), 1, static_cast<int>(columns)), std::nullopt);
}

void ShowHeads(SiteVisitors visitors, Site site, int layer, const TokenBatch& batch, std::span<const OutputHead> table,
               HeadsView<float> values) {
  Show(visitors, site, layer, batch, values, table);
}

KeptStreams::Sequences KeptStreams::SequencesOf(const TokenBatch& batch) {
  Sequences all;
  for (const AttentionSequence& s : batch.sequences) {
    all.insert(all.end(), {s.past, s.prefix, std::ssize(s.branches)});
    all.insert(all.end(), s.branches.begin(), s.branches.end());
  }
  all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
  return all;
}

void KeptStreams::Begin(Run run) {
  run_ = std::move(run);
  std::erase_if(streams_, [this](const auto& stream) {
    if (run_.expected.contains(stream.first)) return false;
    for (const auto& [tokens, values] : stream.second) values_ -= std::ssize(values);
    return true;
  });
}

int KeptStreams::Resume(const TokenBatch& batch, std::span<float> x) const {
  if (streams_.empty()) return 0;
  const Sequences sequences = SequencesOf(batch);
  for (int layer = static_cast<int>(run_.names.size()) - 1; layer > 0; --layer) {
    const auto named = streams_.find({layer, run_.names[static_cast<size_t>(layer)]});
    if (named == streams_.end()) continue;
    const auto found = named->second.find(sequences);
    if (found == named->second.end()) continue;
    TARE_CHECK(found->second.size() == x.size());
    std::ranges::copy(found->second, x.begin());
    return layer;
  }
  return 0;
}

void KeptStreams::Keep(const TokenBatch& batch, int layer, std::span<const float> x) {
  if (!run_.kept.contains(layer) || values_ + std::ssize(x) > most_) return;
  auto& named = streams_[{layer, run_.names.at(static_cast<size_t>(layer))}];
  if (named.try_emplace(SequencesOf(batch), x.begin(), x.end()).second) values_ += std::ssize(x);
}

}  // namespace tare
