// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/prefix_index.h"

namespace tare::pipeline {

PrefixIndex::PrefixIndex(std::vector<std::pair<std::string_view, int32_t>> texts) : sorted_(std::move(texts)) {
  std::erase_if(sorted_, [](const auto& entry) { return entry.first.empty(); });
  std::ranges::sort(sorted_);
  const auto same = std::ranges::unique(sorted_, {}, &std::pair<std::string_view, int32_t>::first);
  sorted_.erase(same.begin(), same.end());
  for (const auto& [text, number] : sorted_) ++begins_[static_cast<unsigned char>(text[0]) + size_t{1}];
  for (size_t byte = 1; byte < begins_.size(); ++byte) begins_[byte] += begins_[byte - 1];
}

}  // namespace tare::pipeline
