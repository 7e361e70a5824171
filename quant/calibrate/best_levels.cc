// SPDX-License-Identifier: Apache-2.0
#include "quant/calibrate/clipping.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "quant/base/message.h"
#include "quant/format/grid.h"

namespace tare {
namespace {

// Sums over the first bins that hold values: differences of two give a run's loss about its mean. Exact while squares
// sum to less than 2^37, some 10^11 values: counts are whole and middles multiples of 1/256.
struct Prefix {
  double count = 0, sum = 0, squares = 0;
};

std::vector<Prefix> PrefixesOf(const LevelCounts& counts) {
  std::vector<Prefix> all(1);
  for (int bin = 0; bin < LevelCounts::kBins; ++bin) {
    if (counts.at(bin) == 0) continue;
    const auto n = static_cast<double>(counts.at(bin));
    const double x = LevelCounts::Middle(bin);
    all.push_back({all.back().count + n, all.back().sum + n * x, all.back().squares + n * x * x});
  }
  return all;
}

double MeanOf(const Prefix& from, const Prefix& to) { return (to.sum - from.sum) / (to.count - from.count); }

double LossOf(const Prefix& from, const Prefix& to) {
  return to.squares - from.squares - (to.sum - from.sum) * MeanOf(from, to);
}

// Where the last of k runs that serve the first j bins begins: at first[k][j].
std::vector<std::vector<int>> BestRuns(const std::vector<Prefix>& prefixes, int levels) {
  const int bins = static_cast<int>(prefixes.size()) - 1;
  std::vector<double> least(prefixes.size(), std::numeric_limits<double>::infinity()), next;
  least[0] = 0;
  std::vector<std::vector<int>> first;
  for (int k = 0; k < levels; ++k) {
    next.assign(prefixes.size(), std::numeric_limits<double>::infinity());
    std::vector<int>& begins = first.emplace_back(prefixes.size());
    for (int j = k + 1; j <= bins; ++j) {
      for (int i = k; i < j; ++i) {
        const double loss = least[i] + LossOf(prefixes[i], prefixes[j]);
        if (loss >= next[j]) continue;
        next[j] = loss;
        begins[j] = i;
      }
    }
    least = next;
  }
  return first;
}

}  // namespace

void LevelCounts::Add(std::span<const float> values, float origin, float inv) {
  constexpr float kEdge = kBins / 2 - 0.5f;
  for (const float x : values) {
    const float place = std::clamp((x - origin) * inv * 128.0f, -kEdge, kEdge);
    ++counts_[static_cast<size_t>(std::floor(place) + kBins / 2)];
  }
}

LevelCounts& LevelCounts::operator+=(const LevelCounts& other) {
  std::ranges::transform(counts_, other.counts_, counts_.begin(), std::plus());
  return *this;
}

int64_t LevelCounts::total() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

double LevelLoss(const LevelCounts& counts, std::span<const float> levels) {
  double sum = 0;
  for (int bin = 0; bin < LevelCounts::kBins; ++bin) {
    const double x = LevelCounts::Middle(bin), lost = x - NearestLevel(static_cast<float>(x), levels);
    sum += static_cast<double>(counts.at(bin)) * lost * lost;
  }
  const int64_t total = counts.total();
  return total == 0 ? 0 : sum / static_cast<double>(total);
}

std::vector<float> BestLevels(const LevelCounts& counts, int levels) {
  TARE_CHECK(levels >= 2);
  const std::vector<Prefix> prefixes = PrefixesOf(counts);
  if (std::ssize(prefixes) - 1 < levels)
    Fail("got values in {} of the bins, expected at least {}, one for each level; try more tokens", prefixes.size() - 1,
         levels);
  const std::vector<std::vector<int>> first = BestRuns(prefixes, levels);
  std::vector<float> best(static_cast<size_t>(levels));
  auto end = static_cast<int>(prefixes.size()) - 1;
  for (int k = levels - 1; k >= 0; --k) {
    const int begin = first[k][end];
    best[k] = static_cast<float>(std::round(MeanOf(prefixes[begin], prefixes[end]) * 1000) / 1000);
    end = begin;
  }
  return best;
}

}  // namespace tare
