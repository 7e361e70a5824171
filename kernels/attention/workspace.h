// SPDX-License-Identifier: Apache-2.0
// The caller's memory of one attention call: what all threads share, then one scratch per thread. A kernel's Layout
// takes its pieces from an arena,
//
//   Packed TakePacked(Arena&) const      K and V of all heads, as the products read them
//   Scratch TakeScratch(Arena&) const    what one thread works with: a list of pieces, each declared where it is taken
//
// and an arena from base 0 only counts, so that one function gives both size and layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {

// What a first pass over a row's keys keeps for the second, per thread; leaves room for the rest in 4 MiB.
inline constexpr int64_t kMostKept = int64_t{3} << 20;

// Hands out pieces on 64-byte boundaries.
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
  uintptr_t end() const { return base_ + used_; }

 private:
  uintptr_t base_;
  uintptr_t used_ = 0;
};

template <class Layout>
size_t BytesOf(const Layout& layout) {
  Arena arena(0);
  layout.TakePacked(arena);
  for (int thread = 0; thread < Threads(); ++thread) layout.TakeScratch(arena);
  return arena.used();
}

template <class Layout>
class Workspace {
 public:
  // Throws Error for memory that is too small or off the 64-byte boundary.
  Workspace(const Layout& layout, std::span<std::byte> memory)
      : layout_(layout), base_(reinterpret_cast<uintptr_t>(memory.data())), packed_(base_), one_(0) {
    if (base_ % 64 != 0) Fail("attention workspace: got a pointer off the 64-byte boundary");
    if (const size_t bytes = BytesOf(layout); memory.size() < bytes)
      Fail("attention workspace: got {} bytes, expected {}", memory.size(), bytes);
    layout.TakePacked(packed_);
    layout.TakeScratch(one_);
  }

  auto Packed() const {
    Arena arena(base_);
    return layout_.TakePacked(arena);
  }
  auto Scratch(int thread) const {
    Arena arena(packed_.end() + static_cast<uintptr_t>(thread) * one_.used());
    return layout_.TakeScratch(arena);
  }

 private:
  const Layout& layout_;
  uintptr_t base_;
  Arena packed_, one_;  // used up: where scratches begin, and how large each is
};

}  // namespace tare
