// SPDX-License-Identifier: Apache-2.0
// The K values of largest magnitude of a stream, each with its place: exact, and independent of the order and split of
// the stream, because values are ranked by a total order: |x| descending, then place ascending.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tare {

// Attention logits: row = query, column = key. Hidden states: head = -1, row = token, column = channel.
struct Place {
  int64_t sequence = 0;
  int32_t layer = 0;
  int32_t head = 0;
  int64_t row = 0;
  int64_t column = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct TopValue {
  float value = 0.0f;  // with its sign
  Place place;
  friend bool operator==(const TopValue&, const TopValue&) = default;
};

class TopValues {
 public:
  static constexpr size_t kDefaultCapacity = 100;

  explicit TopValues(size_t capacity = kDefaultCapacity);  // at least 1

  // Whether the value would enter now. NaN never does.
  bool Admits(float value, const Place& place) const;
  void Offer(float value, const Place& place);
  // The capacities must be equal.
  void Merge(const TopValues& other);

  // The magnitude below which nothing can enter; 0 while there is room. An equal magnitude may still enter by its
  // place.
  float threshold() const { return threshold_; }
  size_t capacity() const { return capacity_; }
  size_t size() const { return heap_.size(); }
  std::vector<TopValue> Sorted() const;  // largest first

  friend bool operator==(const TopValues& a, const TopValues& b) {
    return a.capacity_ == b.capacity_ && a.Sorted() == b.Sorted();
  }

 private:
  size_t capacity_;
  float threshold_ = 0.0f;
  std::vector<TopValue> heap_;  // the lowest-ranked value in front
};

}  // namespace tare
