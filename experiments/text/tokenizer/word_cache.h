// SPDX-License-Identifier: Apache-2.0
// The ids of the last short words, because words of a text repeat. A word has one place, where the last one stays: 512
// KiB that fit a processor's second cache, whatever the text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace tare::pipeline {

class WordCache {
 public:
  // Appends the word's ids; false where it is not kept.
  bool Find(std::string_view word, std::vector<int32_t>* ids) const {
    if (word.empty() || word.size() > kBytes) return false;
    const Text text = TextOf(word);
    const Slot& slot = slots_[PlaceOf(text)];
    if (slot.text != text) return false;
    ids->insert(ids->end(), slot.ids.begin(), slot.ids.begin() + slot.count);
    return true;
  }

  // Longer words, empty ones and those of more ids are not kept.
  void Keep(std::string_view word, std::span<const int32_t> ids) {
    if (word.empty() || word.size() > kBytes || ids.size() > kIds) return;
    const Text text = TextOf(word);
    Slot& slot = slots_[PlaceOf(text)];
    slot.text = text;
    slot.count = static_cast<int32_t>(ids.size());
    std::ranges::copy(ids, slot.ids.begin());
  }

 private:
  static constexpr size_t kBytes = 15, kIds = 3;  // a slot of half a line of 64 bytes
  static constexpr int kSlotBits = 14;

  using Text = std::array<uint64_t, 2>;  // the bytes, zeros, and in the last byte how many; all zeros: no word
  struct Slot {
    Text text{};
    int32_t count = 0;
    std::array<int32_t, kIds> ids{};
  };

  static Text TextOf(std::string_view word) {
    std::array<char, 16> bytes{};
    std::memcpy(bytes.data(), word.data(), word.size());
    bytes.back() = static_cast<char>(word.size());
    Text text;
    std::memcpy(text.data(), bytes.data(), bytes.size());
    return text;
  }
  // Odd multipliers spread every bit of the words into the high ones (Fibonacci hashing, Knuth, volume 3, 6.4).
  static size_t PlaceOf(const Text& text) {
    const uint64_t mixed = (text[0] * 0x9e3779b97f4a7c15 ^ text[1]) * 0xd6e8feb86659fd93;
    return static_cast<size_t>((mixed ^ mixed >> 32) * 0x9e3779b97f4a7c15 >> (64 - kSlotBits));
  }

  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << kSlotBits);
};

}  // namespace tare::pipeline
