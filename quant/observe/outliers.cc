// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/outliers.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "quant/base/message.h"

namespace tare {
namespace {

// A total order. The sign decides last, for the same place offered twice.
bool RanksBefore(const TopValue& a, const TopValue& b) {
  return std::tuple(-std::fabs(a.value), a.place, -a.value) < std::tuple(-std::fabs(b.value), b.place, -b.value);
}

// Values searched again if one of them may enter the top: few, because most cannot; enough for vectors.
constexpr size_t kChunk = 256;

constexpr uint64_t kFlushAfter = uint64_t{1} << 24;  // values between flushes, far below MagnitudeCounter's bound

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
  if (capacity_ != other.capacity_)
    Fail("top values: got {} kept values to merge into {}, expected equal numbers", other.capacity_, capacity_);
  for (size_t i = 0, size = other.heap_.size(); i < size; ++i) Offer(other.heap_[i].value, other.heap_[i].place);
}

std::vector<TopValue> TopValues::Sorted() const {
  std::vector<TopValue> sorted = heap_;
  std::ranges::sort(sorted, RanksBefore);
  return sorted;
}

float OutlierStatistics::absmax() const { return top.size() == 0 ? 0.0f : std::fabs(top.Sorted().front().value); }

void OutlierStatistics::Add(std::span<const float> run, Place first) {
  for (const float value : run) {
    if (std::isfinite(value)) {
      magnitudes.Add(value);
      top.Offer(value, first);
    } else {
      AddNonfinite(first);
    }
    ++first.column;
  }
}

void OutlierStatistics::AddNonfinite(const Place& place) {
  ++nonfinite;
  first_nonfinite = first_nonfinite ? std::min(*first_nonfinite, place) : place;
}

void OutlierStatistics::Merge(const OutlierStatistics& other) {
  top.Merge(other.top);
  magnitudes.Merge(other.magnitudes);
  nonfinite += other.nonfinite;
  if (other.first_nonfinite)
    first_nonfinite = first_nonfinite ? std::min(*first_nonfinite, *other.first_nonfinite) : *other.first_nonfinite;
}

void OutlierAccumulator::Locate(std::span<const float> run, Place place) {
  for (const float value : run) {
    if (!std::isfinite(value)) {
      local_.AddNonfinite(place);
    } else if (std::fabs(value) >= floor_) {
      local_.top.Offer(value, place);
    }
    ++place.column;
  }
  floor_ = std::max(floor_, local_.top.threshold());
}

void OutlierAccumulator::Add(std::span<const float> run, Place first) {
  while (!run.empty()) {
    const std::span<const float> chunk = run.first(std::min(run.size(), kChunk));
    const float largest = counter_.Count(chunk);
    // Among values equal to the threshold, the first place ranks highest: if it cannot enter, none of the chunk can.
    const bool may_enter = largest >= floor_ && local_.top.Admits(largest, first);
    if (may_enter || !std::isfinite(largest)) Locate(chunk, first);
    first.column += static_cast<int64_t>(chunk.size());
    run = run.subspan(chunk.size());
    if (counter_.pending() >= kFlushAfter) counter_.FlushInto(local_.magnitudes);
  }
}

void OutlierAccumulator::FlushInto(OutlierStatistics& target) {
  counter_.FlushInto(target.magnitudes);
  target.Merge(local_);
  local_ = OutlierStatistics(local_.top.capacity());
  floor_ = 0.0f;
}

}  // namespace tare
