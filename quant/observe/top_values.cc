// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/top_values.h"

#include <algorithm>
#include <cmath>

#include "quant/base/error.h"

namespace tare {
namespace {

// A total order on what differs: the sign decides last, for the same place offered twice.
bool RanksBefore(const TopValue& a, const TopValue& b) {
  const float magnitude_a = std::fabs(a.value);
  const float magnitude_b = std::fabs(b.value);
  if (magnitude_a != magnitude_b) return magnitude_a > magnitude_b;
  if (a.place != b.place) return a.place < b.place;
  return a.value > b.value;
}

}  // namespace

TopValues::TopValues(size_t capacity) : capacity_(capacity) {
  if (capacity == 0) Fail("top values: got capacity 0, expected 1 or more");
}

bool TopValues::Admits(float value, const Place& place) const {
  if (!(std::fabs(value) >= threshold_)) return false;  // NaN compares false
  return heap_.size() < capacity_ || RanksBefore({value, place}, heap_.front());
}

void TopValues::Offer(float value, const Place& place) {
  if (!Admits(value, place)) return;
  if (heap_.size() == capacity_) {
    std::ranges::pop_heap(heap_, RanksBefore);
    heap_.pop_back();
  }
  heap_.push_back({value, place});
  std::ranges::push_heap(heap_, RanksBefore);
  if (heap_.size() == capacity_) threshold_ = std::fabs(heap_.front().value);
}

void TopValues::Merge(const TopValues& other) {
  if (capacity_ != other.capacity_) {
    Fail("top values: got {} kept values to merge into {}, expected equal numbers", other.capacity_, capacity_);
  }
  for (size_t i = 0, size = other.heap_.size(); i < size; ++i) Offer(other.heap_[i].value, other.heap_[i].place);
}

std::vector<TopValue> TopValues::Sorted() const {
  std::vector<TopValue> sorted = heap_;
  std::ranges::sort(sorted, RanksBefore);
  return sorted;
}

}  // namespace tare
