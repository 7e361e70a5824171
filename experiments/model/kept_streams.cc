// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/kept_streams.h"

#include <algorithm>
#include <iterator>

#include "quant/base/error.h"

namespace tare {

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
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    if (run_.expected.contains(stream->first)) {
      ++stream;
      continue;
    }
    for (const auto& [tokens, values] : stream->second) values_ -= std::ssize(values);
    stream = streams_.erase(stream);
  }
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
