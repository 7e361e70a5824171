// SPDX-License-Identifier: Apache-2.0
#include "quant/format/listed_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/number.h"
#include "quant/format/format.h"

namespace tare {
namespace {

constexpr size_t kMaxValues = 256;
constexpr size_t kMaxGrids = 16384;  // sweeps of 65 plans with levels for each of 126 layers' keys and values
constexpr float kLeastLargest = 0x1p-100f, kMostLargest = 0x1p100f;
constexpr std::string_view kBlanks = " \t\r\n";

struct Listed {
  std::string name;
  std::array<float, 256> values;
  FormatInfo info;
  std::string name_about_mean;
  FormatInfo about_mean;
};

// A slot is written once, before anyone gets its number, so whoever has the number may read it without the lock.
std::mutex listing;
std::array<std::unique_ptr<Listed>, kMaxGrids> grids;
size_t listed_count = 0;

const Listed& At(Format format) {
  const size_t index = static_cast<size_t>(format) - kFormats.size();
  TARE_CHECK(index < kMaxGrids && grids[index] != nullptr);
  return *grids[index];
}

float LargestOf(std::span<const float> values) { return std::max(std::fabs(values.front()), std::fabs(values.back())); }

// The smallest of two, four, six and eight bits.
int BitsFor(size_t values) { return values <= 4 ? 2 : values <= 16 ? 4 : values <= 64 ? 6 : 8; }

std::unique_ptr<Listed> MakeListed(const std::string& name, std::span<const float> values) {
  auto listed = std::make_unique<Listed>();
  listed->name = name;
  listed->values.fill(std::numeric_limits<float>::quiet_NaN());
  std::ranges::copy(values, listed->values.begin());
  listed->info = {.format = static_cast<Format>(kFormats.size() + listed_count),
                  .name = listed->name,
                  .bits = BitsFor(values.size()),
                  .grid = {.largest = LargestOf(values), .levels = std::span(listed->values).first(values.size())}};
  listed->name_about_mean = name + "+mean";
  listed->about_mean = listed->info;
  listed->about_mean.format = WithRange(listed->info.format, CodeRange::kMean);
  listed->about_mean.name = listed->name_about_mean;
  listed->about_mean.statistic = Statistic::kRootMeanSquare;
  listed->about_mean.range = CodeRange::kMean;
  return listed;
}

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
  std::string name(kGridMark);
  for (const float value : values) name += Formatted("{}{}", name.size() == kGridMark.size() ? "" : " ", value);
  return name + ")";
}

Format ListedFormat(std::string_view name) {
  TARE_CHECK(name.starts_with(kGridMark));
  const size_t end = name.find(')');
  if (end == name.npos) Fail("grid: got no ')' after its values, expected one");
  if (end + 1 < name.size())
    Fail("grid: got '{}' after its ')', expected nothing; try it behind the granularity of a plan's rule",
         name.substr(end + 1, 32));
  name.remove_prefix(kGridMark.size());
  const std::vector<float> values = ParseGrid(name.substr(0, name.size() - 1), "grid");
  const std::string canonical = GridName(values);
  const std::scoped_lock hold(listing);
  for (size_t i = 0; i < listed_count; ++i) {
    if (grids[i]->name == canonical) return grids[i]->info.format;
  }
  if (listed_count == kMaxGrids) Fail("grid: got more than {} in one process, expected fewer", kMaxGrids);
  grids[listed_count] = MakeListed(canonical, values);
  return grids[listed_count++]->info.format;
}

const FormatInfo& ListedInfo(Format format) { return At(format).info; }

const FormatInfo& ListedAboutMean(Format format) { return At(format).about_mean; }

const std::array<float, 256>& ListedValues(Format format) { return At(format).values; }

}  // namespace tare
