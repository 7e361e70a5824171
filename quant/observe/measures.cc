// SPDX-License-Identifier: Apache-2.0
// Measures of attention maps and formats, plain sums, measures from sums, all measures of a site, channels, outliers.
#include "quant/observe/statistics_set.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace tare {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double Ratio(long double a, long double b) { return b == 0 ? kNone : static_cast<double>(a / b); }

void AddMapMeasures(const std::vector<std::string>& names, const PlainSums& s, Measures& measures) {
  long double blocks = 0, marked = 0, outputs = 0;
  for (size_t i = kBaseSums; i < names.size(); ++i) {
    if (names[i] == "blocks") blocks = s.sums[i];
    if (names[i] == "marked_rows") marked = s.sums[i];
    if (names[i] == "output_rows") outputs = s.sums[i];
  }
  for (size_t i = kBaseSums; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (name.ends_with(".error2")) break;  // formats
    if (name == "blocks" || name == "early_sink_mass" || name == "marked_rows" || name == "output_rows") continue;
    if (name == "sink_sequences") {
      measures.emplace_back("sink_rate", Ratio(s.sums[i], s.sequences));
    } else if (name == "first_map_x2") {
      measures.emplace_back("cancellation_pooled", std::sqrt(Ratio(s.sums[kSumX2], s.sums[i])));
    } else {
      const bool is_mass = name.starts_with("entry_mass") || name.starts_with("block_mass");
      // Entropy, sink_mass, negative_mass and cancellation are means of rows.
      const long double of = name == "answer_mass" || name == "noise_mass" ? marked
                             : name.starts_with("output_error")            ? outputs
                             : name.starts_with("entries_under")           ? s.values
                             : name.starts_with("blocks_under")            ? blocks
                             : is_mass                                     ? s.sums[kSumMagnitude]
                                                                           : s.rows;
      measures.emplace_back(name, Ratio(s.sums[i], of));
    }
  }
}

void AddFormatMeasures(const std::vector<std::string>& names, const PlainSums& s, Measures& measures) {
  for (size_t i = kBaseSums; i < names.size(); ++i) {
    const size_t end = names[i].find(".error2");
    if (end == std::string::npos) continue;
    const std::string format = names[i].substr(0, end);
    const auto x2 = static_cast<double>(s.sums[kSumX2]), error2 = static_cast<double>(s.sums[i]);
    measures.emplace_back(format + ".sqnr_db", SignalToNoise(x2, error2));
    measures.emplace_back(format + ".cosine",
                          Cosine(x2, static_cast<double>(s.sums[i + 3]), static_cast<double>(s.sums[i + 2])));
    measures.emplace_back(format + ".relative_l1", Ratio(s.sums[i + 1], s.sums[kSumMagnitude]));
  }
}

}  // namespace

PlainSums PlainSums::Of(const Fold& fold) {
  PlainSums plain{.sequences = static_cast<double>(fold.sequences),
                  .rows = static_cast<double>(fold.rows),
                  .values = static_cast<double>(fold.values),
                  .absmax = fold.absmax,
                  .powers = fold.Powers()};
  for (size_t i = 0; i < fold.sums.size(); ++i) plain.sums.push_back(fold.sums.Value(i));
  return plain;
}

void PlainSums::Add(const PlainSums& other) {
  sequences += other.sequences;
  rows += other.rows;
  values += other.values;
  absmax = std::max(absmax, other.absmax);
  powers.Add(other.powers);
  if (sums.empty()) sums.resize(other.sums.size());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += other.sums[i];
}

Measures SumMeasures(Site site, const std::vector<std::string>& names, const PlainSums& s) {
  // A row of few keys may have next to no spread, and a mean over such rows says nothing.
  Measures measures = {{"absmax", s.values == 0 ? kNone : s.absmax},
                       {"mean", s.powers.Mean()},
                       {"variance", s.powers.Variance()},
                       {"kurtosis", s.powers.Kurtosis()},
                       {"kurtosis_sequence", Ratio(s.sums[kSumSequenceKurtosis], s.sequences)},
                       {"kurtosis_row", HasChannels(site) ? Ratio(s.sums[kSumRowKurtosis], s.rows) : kNone},
                       {"mean_magnitude", Ratio(s.sums[kSumMagnitude], s.values)},
                       {"infinity_norm", Ratio(s.sums[kSumSequenceAbsmax], s.sequences)},
                       {"row_norm", Ratio(s.sums[kSumRowNorm], s.rows)}};
  // What the mean row lacks of 1. Below a millionth it is the rounding of rows that sum to 1.
  const double lacked = 1.0 - Ratio(s.sums[kSumX], s.rows);
  if (site == Site::kProbs) measures.emplace_back("sink_share", lacked < 1e-6 ? 0.0 : lacked);
  if (site == Site::kProbs || site == Site::kDifference) AddMapMeasures(names, s, measures);
  AddFormatMeasures(names, s, measures);
  return measures;
}

Measures AllMeasures(const StatisticsSet& set, const SiteKey& key, const SiteStatistics& s) {
  Measures measures = SumMeasures(key.site, set.Sums(key.site), PlainSums::Of(s.Total()));
  for (const auto& [name, q] : kQuantiles) measures.emplace_back(name, s.outliers.Quantile(q));
  measures.emplace_back("largest", s.largest ? *s.largest : kNone);
  measures.emplace_back("largest_row_norm", s.largest_row_norm);
  measures.emplace_back("top_channel_energy", TopChannelEnergy(s.channel_energy));
  measures.emplace_back("massive", static_cast<double>(MassiveActivations(s.outliers)));
  if (key.site == Site::kDifference && key.layer && set.lambda.contains(*key.layer))
    measures.emplace_back("lambda", set.lambda.at(*key.layer));
  return measures;
}

Measures SignalToNoise(const StatisticsSet& set, Site site, const Fold& total) {
  constexpr std::string_view kEnd = ".sqnr_db";
  Measures measures;
  if (set.formats.empty()) return measures;
  for (const auto& [name, value] : SumMeasures(site, set.Sums(site), PlainSums::Of(total))) {
    if (name.ends_with(kEnd)) measures.emplace_back(name.substr(0, name.size() - kEnd.size()), value);
  }
  return measures;
}

double TopChannelEnergy(const ExactSums& energy) {
  std::vector<long double> channels;
  for (size_t i = 0; i < energy.size(); ++i) channels.push_back(energy.Value(i));
  std::ranges::sort(channels, std::greater<>());
  const auto rest = channels.begin() + (std::ssize(channels) + 99) / 100;
  const long double highest = std::accumulate(channels.begin(), rest, 0.0L);
  return Ratio(highest, std::accumulate(rest, channels.end(), highest));
}

uint64_t MassiveActivations(const OutlierStatistics& outliers) {
  const float threshold = std::max(100.0f, 1000.0f * outliers.magnitudes.Median());
  uint64_t count = 0;
  for (const auto& [bin, values] : outliers.magnitudes.Counts()) {
    if (MagnitudeHistogram::MagnitudeOf(bin) > threshold) count += values;
  }
  return count;
}

}  // namespace tare
