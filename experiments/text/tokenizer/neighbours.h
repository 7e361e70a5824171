// SPDX-License-Identifier: Apache-2.0
// Which two characters (or bytes) stand side by side in some piece of a vocabulary; no others ever merge.
#pragma once

#include <bitset>
#include <cstdint>
#include <unordered_set>

namespace tare::pipeline {

class Neighbours {
 public:
  void Add(char32_t first, char32_t second) {
    if (IsSmall(first, second)) {
      small_.set(first << 8 | second);
    } else {
      others_.insert(Key(first, second));
    }
  }
  bool Has(char32_t first, char32_t second) const {
    return IsSmall(first, second) ? small_.test(first << 8 | second) : others_.contains(Key(first, second));
  }

 private:
  static bool IsSmall(char32_t first, char32_t second) { return first < 256 && second < 256; }
  static uint64_t Key(char32_t first, char32_t second) { return static_cast<uint64_t>(first) << 32 | second; }

  std::bitset<65536> small_;  // most of a vocabulary's pairs
  std::unordered_set<uint64_t> others_;
};

}  // namespace tare::pipeline
