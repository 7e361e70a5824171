// SPDX-License-Identifier: Apache-2.0
// Hands out pieces of a caller's buffer on 64-byte boundaries; from base 0 it only counts, so that sizes and layout are
// one text.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tare {

class Arena {
 public:
  explicit Arena(uintptr_t base) : base_(base) {}

  template <typename T>
  T* Take(int64_t count) {
    T* piece = reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<uintptr_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  uintptr_t base_;
  uintptr_t used_ = 0;
};

}  // namespace tare
