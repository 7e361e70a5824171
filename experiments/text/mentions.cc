// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/mentions.h"

#include <algorithm>

namespace tare {
namespace {

bool IsWordByte(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
         static_cast<unsigned char>(c) > 127;
}

}  // namespace

TextWords::TextWords(std::string_view text) {
  bool within = false;
  for (const char c : text) {
    if (!within && IsWordByte(c)) words_.emplace_back();
    within = IsWordByte(c);
    if (within) words_.back() += 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  sorted_ = words_;
  std::ranges::sort(sorted_);
}

bool TextWords::Has(std::string_view word) const { return std::ranges::binary_search(sorted_, word); }

Mentions TextWords::Find(const TextWords& phrase) const {
  Mentions mentions;
  const std::vector<std::string>& wanted = phrase.words_;
  if (wanted.empty() || !std::ranges::all_of(wanted, [&](const std::string& word) { return Has(word); }))
    return mentions;
  for (size_t at = 0; at + wanted.size() <= words_.size(); ++at) {
    if (!std::equal(wanted.begin(), wanted.end(), words_.begin() + static_cast<ptrdiff_t>(at))) continue;
    if (mentions.count++ == 0) mentions.first = at;
    mentions.last = at;
  }
  return mentions;
}

}  // namespace tare
