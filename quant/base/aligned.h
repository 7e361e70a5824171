// SPDX-License-Identifier: Apache-2.0
// A buffer of trivial values, 64-byte aligned (a cache line, the widest vector), not initialised. Moves with memory.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <memory_resource>
#include <span>
#include <type_traits>

#include "quant/base/message.h"

namespace tare {

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size) { Reset(size); }
  // Empty; what it will hold is there, which must outlive it.
  explicit AlignedBuffer(std::pmr::memory_resource& memory) : data_(nullptr, {&memory}) {}

  // Drops the contents and holds `size` uninitialised values.
  void Reset(size_t size) {
    if (size > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) Fail("buffer of {} values: too large", size);
    const Free free{data_.get_deleter().memory, size * sizeof(T)};
    data_ = {static_cast<T*>(free.memory->allocate(free.bytes, kAlignment)), free};
    size_ = size;
  }
  // Holds at least `size` values; keeps the contents only if it need not grow.
  void Reserve(size_t size) {
    if (size > size_) Reset(size);
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data_.get(), size_}; }
  std::span<const T> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
    size_t bytes = 0;
    void operator()(T* p) const { memory->deallocate(p, bytes, kAlignment); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t size_ = 0;
};

}  // namespace tare
