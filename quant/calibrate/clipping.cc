// SPDX-License-Identifier: Apache-2.0
// Clips from values and from histograms, static clips, and best levels.
#include "quant/calibrate/clipping.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "quant/base/message.h"
#include "quant/format/grid.h"
#include "quant/format/round.h"

namespace tare {
namespace {

double SquaredError(float magnitude, Scale scale, const Format& format) {
  const double error = double{magnitude} - double{Rounded(magnitude, scale.inv, format)} * double{scale.scale};
  return error * error;
}

// The clip with the least error; the largest of equal ones. error(scale) is the whole sum.
template <typename Error>
float LeastError(float absmax, const Format& format, Error error) {
  float best = absmax;
  double least = HUGE_VAL;
  for (int i = kClips; i >= 1; --i) {
    const float clip = absmax * static_cast<float>(i) / kClips;
    const double sum = error(ScaleFor(clip, format));
    if (sum < least) best = clip, least = sum;
  }
  return best;
}

void CheckPercentile(double percentile) {
  if (!(percentile > 0.0 && percentile <= 100.0))
    Fail("clip: got percentile {}, expected above 0 and at most 100", percentile);
}

// ---- entropy: the histogram on a linear scale, as the method has it

constexpr int kLinearBins = 2048;
constexpr int kStep = kLinearBins / kClips;  // bins between two clips that are tried

// Shares of |x| in kLinearBins equal bins of [0, absmax]; a bin of the histogram counts at its midpoint. Zeros are left
// out: they are exact under every clip, and if there are many they would hide the rest.
std::vector<double> LinearShares(const MagnitudeHistogram& magnitudes, float absmax) {
  std::vector<double> shares(kLinearBins);
  double total = 0.0;
  for (const auto& [bin, count] : magnitudes.Counts()) {
    if (bin == 0) continue;
    const double place = MagnitudeHistogram::MagnitudeOf(bin) / static_cast<double>(absmax) * kLinearBins;
    shares[static_cast<size_t>(std::clamp(place, 0.0, kLinearBins - 1.0))] += static_cast<double>(count);
    total += static_cast<double>(count);
  }
  for (double& share : shares) share /= total;
  return shares;
}

// KL(P || Q): P is the first `kept` bins, with everything beyond added to the last; Q is those bins merged into
// `levels` and spread again over the non-empty bins.
double Divergence(std::span<const double> shares, int kept, int levels, double beyond) {
  double divergence = 0.0, total = 0.0;
  for (int i = 0; i < kept; ++i) total += shares[static_cast<size_t>(i)];
  for (int level = 0; level < levels; ++level) {
    const int begin = static_cast<int>(static_cast<int64_t>(level) * kept / levels);
    const int end = static_cast<int>(static_cast<int64_t>(level + 1) * kept / levels);
    double mass = 0.0;
    int held = 0;
    for (int i = begin; i < end; ++i) {
      mass += shares[static_cast<size_t>(i)];
      held += shares[static_cast<size_t>(i)] > 0.0;
    }
    for (int i = begin; i < end; ++i) {
      const double p = shares[static_cast<size_t>(i)] + (i == kept - 1 ? beyond : 0.0);
      if (p == 0.0) continue;
      if (held == 0) return HUGE_VAL;  // what lies beyond falls where the codes know nothing
      divergence += p * std::log(p / (mass / held / total));
    }
  }
  return divergence;
}

// Counts from 1. Multiplies before dividing, so that 99.9 % of 1000 values is the 999th: 99.9 / 100 is above 0.999.
double RankOf(double percentile, double count) { return std::max(1.0, std::ceil(percentile * count / 100.0)); }

[[noreturn]] void RefuseUnseen(const SiteKey& key) {
  Fail("static scales: the statistics hold nothing of {}; try tare stats --out with this site", TextOf(key));
}

// The outliers of all heads and maps of a layer.
OutlierStatistics PooledOutliers(const StatisticsSet& set, const SiteKey& place) {
  OutlierStatistics pooled;
  bool seen = false;
  for (const auto& [key, statistics] : set.sites) {
    if (key.site != place.site || key.layer != place.layer) continue;
    pooled.Merge(statistics.outliers);
    seen = true;
  }
  if (!seen) RefuseUnseen(place);
  return pooled;
}

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

float PercentileClip(std::span<const float> values, double percentile) {
  CheckPercentile(percentile);
  if (values.empty()) return 0.0f;
  std::vector<float> magnitudes(values.begin(), values.end());
  for (float& v : magnitudes) v = std::fabs(v);
  const auto at =
      magnitudes.begin() + static_cast<ptrdiff_t>(RankOf(percentile, static_cast<double>(values.size()))) - 1;
  std::ranges::nth_element(magnitudes, at);
  return *at;
}

float LeastErrorClip(std::span<const float> values, const Format& format) {
  return LeastError(AbsMax(values), format, [&](Scale scale) {
    double sum = 0.0;
    for (const float v : values) sum += SquaredError(v, scale, format);
    return sum;
  });
}

float PercentileClip(const MagnitudeHistogram& magnitudes, float absmax, double percentile) {
  CheckPercentile(percentile);
  if (magnitudes.total() == 0 || percentile == 100.0) return absmax;
  const auto count = static_cast<double>(magnitudes.total());
  return std::min(absmax, magnitudes.Quantile((RankOf(percentile, count) - 0.5) / count));
}

float LeastErrorClip(const MagnitudeHistogram& magnitudes, float absmax, const Format& format) {
  const auto counts = magnitudes.Counts();
  return LeastError(absmax, format, [&](Scale scale) {
    double sum = 0.0;
    for (const auto& [bin, count] : counts) {
      const float magnitude = std::min(absmax, MagnitudeHistogram::MagnitudeOf(bin));
      sum += static_cast<double>(count) * SquaredError(magnitude, scale, format);
    }
    return sum;
  });
}

float EntropyClip(const MagnitudeHistogram& magnitudes, float absmax, const Format& format) {
  const int levels = Info(format).max_code + 1;
  if (absmax < kSmallestAbsmax || magnitudes.total() == 0) return absmax;
  const std::vector<double> shares = LinearShares(magnitudes, absmax);
  int best = kLinearBins;
  double least = HUGE_VAL, beyond = 0.0;
  for (int kept = kLinearBins; kept >= levels; kept -= kStep) {
    for (int i = kept; i < std::min(kept + kStep, kLinearBins); ++i) beyond += shares[static_cast<size_t>(i)];
    const double divergence = Divergence(shares, kept, levels, beyond);
    if (divergence < least) best = kept, least = divergence;
  }
  return absmax * static_cast<float>(best) / kLinearBins;
}

float ClipOf(const OutlierStatistics& outliers, const Format& format, const Calibration& calibration) {
  switch (calibration.calibrator) {
    case Calibrator::kMinMax:
      return outliers.absmax();
    case Calibrator::kPercentile:
      return PercentileClip(outliers.magnitudes, outliers.absmax(), calibration.percentile);
    case Calibrator::kLeastError:
      return LeastErrorClip(outliers.magnitudes, outliers.absmax(), format);
    case Calibrator::kEntropy:
      return EntropyClip(outliers.magnitudes, outliers.absmax(), format);
  }
  TARE_CHECK(false);
}

std::vector<float> StaticClips(const StatisticsSet& set, const Rule& rule, const SiteKey& key) {
  Calibration calibration{rule.options.mse ? Calibrator::kLeastError : Calibrator::kMinMax};
  if (rule.options.percentile) calibration = {Calibrator::kPercentile, *rule.options.percentile};
  const auto seen = set.sites.find(key);
  switch (rule.granularity.kind) {
    case Granularity::Kind::kTensor:
      return {ClipOf(PooledOutliers(set, {key.site, key.layer}), rule.format, calibration)};
    case Granularity::Kind::kHead:
      if (seen == set.sites.end()) RefuseUnseen(key);
      return {ClipOf(seen->second.outliers, rule.format, calibration)};
    case Granularity::Kind::kChannel:
      if (seen == set.sites.end() || seen->second.channel_absmax.empty()) RefuseUnseen(key);
      return seen->second.channel_absmax;
    default:
      TARE_CHECK(false);  // refused where the plan is resolved
  }
}

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
