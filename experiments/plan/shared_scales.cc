// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/shared_scales.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/base/message.h"
#include "quant/calibrate/clipping.h"
#include "quant/format/round.h"
#include "quant/observe/statistics_set.h"

namespace tare {
namespace {

float MedianOf(std::span<const float> values) {
  std::vector<float> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

using Kind = Granularity::Kind;

void ForRuns(const SiteBlock& block, int n, const std::function<void(const ScaleGroup&)>& body) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const std::span<float> row = block.Row(r);
    const size_t run = n == 0 ? row.size() : static_cast<size_t>(n);
    for (size_t begin = 0; begin < row.size(); begin += run)
      body({.values = row.subspan(begin, std::min(run, row.size() - begin)),
            .row = r,
            .column = static_cast<int64_t>(begin)});
  }
}

// Rows are copied out and back.
void ForTokens(const SiteBlock& block, int64_t n, Kind kind, const std::function<void(const ScaleGroup&)>& body) {
  TARE_CHECK(block.column_step == 0);
  const auto width = static_cast<size_t>(block.first_columns);
  std::vector<float> values;
  std::vector<int64_t> rows;
  for (int64_t begin = 0; begin < block.rows; begin += n) {
    for (int scale = 0; scale < ScalesOfTokens(kind); ++scale) {
      values.clear(), rows.clear();
      for (int64_t r = begin; r < std::min(begin + n, block.rows); ++r) {
        if (ScaleOfToken(kind, r - begin) == scale) rows.push_back(r);
      }
      for (const int64_t r : rows) values.insert(values.end(), block.Row(r).begin(), block.Row(r).end());
      if (!rows.empty()) body({.values = values, .row = rows.front()});
      for (size_t i = 0; i < rows.size(); ++i)
        std::ranges::copy(std::span(values).subspan(i * width, width), block.Row(rows[i]).begin());
    }
  }
}

// Columns are copied out and back side by side, one cache line of each row at a time.
void ForColumns(const SiteBlock& block, int64_t n, const std::function<void(const ScaleGroup&)>& body) {
  TARE_CHECK(block.column_step == 0);
  constexpr int64_t kBeside = 16;
  std::vector<float> columns(static_cast<size_t>(kBeside * std::min(n, block.rows)));
  for (int64_t begin = 0; begin < block.rows; begin += n) {
    const int64_t rows = std::min(n, block.rows - begin);
    for (int64_t c = 0; c < block.first_columns; c += kBeside) {
      const int64_t beside = std::min(kBeside, block.first_columns - c);
      float* const first = block.values + begin * block.stride + c;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < beside; ++i) columns[i * rows + r] = first[r * block.stride + i];
      }
      for (int64_t i = 0; i < beside; ++i) {
        const std::span<float> column(columns.data() + i * rows, static_cast<size_t>(rows));
        body({.values = column, .row = begin, .column = c + i, .row_step = 1});
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < beside; ++i) first[r * block.stride + i] = columns[i * rows + r];
      }
    }
  }
}

}  // namespace

int64_t OutliersOf(int64_t n, double percent) {
  constexpr double kRoundOff = 1e-9;  // 0.07 percent of 10,000 are 7
  return static_cast<int64_t>(std::ceil(percent * static_cast<double>(n) / 100 - kRoundOff));
}

SetApart::SetApart(std::span<const float> values, Format format, double percent) : places_(values.size()) {
  const double middle = HasOffset(format) ? MedianOf(values) : 0.0f;
  const auto far = [&](size_t i) { return std::fabs(double{values[i]} - middle); };
  const auto count = static_cast<size_t>(OutliersOf(std::ssize(values), percent));
  std::iota(places_.begin(), places_.end(), size_t{0});
  std::ranges::nth_element(places_, places_.begin() + static_cast<ptrdiff_t>(count - 1), [&](size_t a, size_t b) {
    const double of_a = far(a), of_b = far(b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  places_.resize(count);
  std::ranges::sort(places_);
  auto next = places_.begin();
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_outlier = next != places_.end() && *next == i;
    (is_outlier ? outliers_ : others_).push_back(values[i]);
    if (is_outlier) ++next;
  }
}

void SetApart::Restore(std::span<float> values) const {
  for (size_t i = 0; i < places_.size(); ++i) values[places_[i]] = outliers_[i];
}

float DynamicClip(const Rule& rule, std::span<const float> values, float absmax) {
  if (HasOffset(rule.format)) return absmax;
  if (rule.options.percentile) return PercentileClip(values, *rule.options.percentile);
  if (rule.options.mse) return LeastErrorClip(values, rule.format);
  const Statistic statistic = Info(rule.format).statistic;
  return statistic == Statistic::kLargest ? absmax : MagnitudeOf(values, statistic);
}

void ForEachGroup(const SiteBlock& block, Granularity granularity, const std::function<void(const ScaleGroup&)>& body) {
  const auto [kind, n] = granularity;
  if (kind == Kind::kChannel) return ForColumns(block, block.rows, body);
  const bool of_tokens = ScalesOfTokens(kind) > 0;
  if (kind == Kind::kBlockChannel || of_tokens) {
    TARE_CHECK(block.first_row % n == 0);  // blocks of tokens count from the sequence's first
    return of_tokens ? ForTokens(block, n, kind, body) : ForColumns(block, n, body);
  }
  ForRuns(block, n, body);  // n is 0 where whole rows are groups
}

WidePlace PlaceOf(const SiteBlock& block, Kind kind, const Rule* rule) {
  const SiteKey of_all{block.site, block.layer};
  if (kind == Kind::kTensor) return {block.slot, of_all, rule};
  if (kind == Kind::kHeads) return {block.slot, of_all, rule, block.batch_row};
  return {block.slot, block.key(), nullptr};
}

void SharedMaxima::Add(const WidePlace& place, const std::vector<float>& maxima) {
  const std::lock_guard lock(mutex_);
  MergeMaxima(maxima_[place], maxima);
}

const std::vector<float>& SharedMaxima::At(const WidePlace& place) const {
  const std::lock_guard lock(mutex_);
  const auto found = maxima_.find(place);
  TARE_CHECK(found != maxima_.end());  // the pass before has shown it
  return found->second;
}

}  // namespace tare
