// SPDX-License-Identifier: Apache-2.0
#include "quant/format/grid.h"

#include <atomic>
#include <limits>

#include "quant/base/message.h"
#include "quant/format/format.h"

namespace tare {
namespace {

constexpr size_t kMaxValues = 256;
constexpr float kLeastLargest = 0x1p-100f, kMostLargest = 0x1p100f;
constexpr std::string_view kBlanks = " \t\r\n";

float LargestOf(std::span<const float> values) { return std::max(std::fabs(values.front()), std::fabs(values.back())); }

// The smallest of two, four, six and eight bits.
int BitsFor(size_t values) { return values <= 4 ? 2 : values <= 16 ? 4 : values <= 64 ? 6 : 8; }

float ParseValue(std::string_view word, const std::string& place) {
  const std::optional<float> value = ParseNumber<float>(word);
  constexpr size_t kShown = 32;
  if (!value || !std::isfinite(*value)) {
    std::string shown(word.substr(0, kShown));
    std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    Fail("{}: got '{}', expected a finite number in f32; try 0.5 or 1e-3", place, shown);
  }
  return *value + 0.0f;  // zero has no sign in a list
}

}  // namespace

std::vector<float> ParseGrid(std::string_view text, const std::string& where) {
  std::vector<float> values;
  for (size_t at = text.find_first_not_of(kBlanks); at != text.npos; at = text.find_first_not_of(kBlanks, at)) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    const std::string place = Formatted("{}, value {}", where, values.size() + 1);
    const float value = ParseValue(text.substr(at, end - at), place);
    if (!values.empty() && value <= values.back())
      Fail("{}: got {} after {}, expected rising values, each once; try sorting them", place, value, values.back());
    values.push_back(value);
    if (values.size() > kMaxValues) Fail("{}: got more values than {}, expected 2 to as many", where, kMaxValues);
    at = end;
  }
  if (values.size() < 2)
    Fail("{}: got {} values, expected 2 to {}; try -1 0 1, separated by blanks", where, values.size(), kMaxValues);
  if (const float largest = LargestOf(values); largest < kLeastLargest || largest > kMostLargest)
    Fail("{}: got {} as the largest magnitude, expected {} to {}; try values up to 1: the scale makes up for it", where,
         largest, kLeastLargest, kMostLargest);
  return values;
}

std::string GridName(std::span<const float> values) {
  return std::string(kGridMark) + Listed(values, " ", [](float value) { return Formatted("{}", value); }) + ")";
}

struct Levels::List {
  std::array<float, kMaxValues> table;
  FormatInfo own, about_mean;
  std::atomic<int> holders = 1;
};

Levels::Levels(std::span<const float> values) : list_(new List) {
  TARE_CHECK(!values.empty() && values.size() <= kMaxValues);
  list_->table.fill(std::numeric_limits<float>::quiet_NaN());
  std::ranges::copy(values, list_->table.begin());
  list_->own = {.bits = BitsFor(values.size()),
                .grid = {.largest = LargestOf(values), .levels = std::span(list_->table).first(values.size())}};
  list_->about_mean = Changed(list_->own, Ties::kToEven, CodeRange::kMean);
}

void Levels::Hold() const { list_->holders.fetch_add(1, std::memory_order_relaxed); }

void Levels::Release() const {
  if (list_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete list_;
}

std::span<const float> Levels::values() const {
  return list_ == nullptr ? std::span<const float>() : list_->own.grid.levels;
}

const std::array<float, 256>& Levels::table() const { return list_->table; }

const FormatInfo& Levels::Info(CodeRange range) const {
  return range == CodeRange::kMean ? list_->about_mean : list_->own;
}

std::partial_ordering Levels::CompareValues(const Levels& other) const {
  const std::span<const float> a = values(), b = other.values();
  return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace tare
