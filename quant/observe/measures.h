// SPDX-License-Identifier: Apache-2.0
// Figures derived from a site's statistics, by name: `tare stats show --measures` prints them and `tare stats diff`
// compares them. docs/reference/statistics-file.md gives definitions and sources.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "quant/observe/statistics_set.h"

namespace tare {

using Measures = std::vector<std::pair<std::string, double>>;  // NaN if undefined

// Sums in long double: over one group of sequences, several, or a bootstrap draw of them.
struct PlainSums {
  double sequences = 0, rows = 0, values = 0;
  float absmax = 0.0f;
  std::vector<long double> sums;

  static PlainSums Of(const Fold& fold);
  void Add(const PlainSums& other);
};

// Figures that follow from sums: means, moments, kurtosis in three variants, and those of the site's own sums.
Measures SumMeasures(Site site, const std::vector<std::string>& names, const PlainSums& sums);

// SumMeasures over all sequences, and figures that follow from counts and maxima: quantiles, energy of channels,
// massive activations, the largest value and norm. `statistics` are the key's, of all positions or of the rest.
Measures AllMeasures(const StatisticsSet& set, const SiteKey& key, const SiteStatistics& statistics);
// Of all positions.
inline Measures AllMeasures(const StatisticsSet& set, const SiteKey& key) {
  return AllMeasures(set, key, set.sites.at(key));
}

// For each format measured at the site ("int8/row"): 10 log10(sum x^2 / sum (x - y)^2) in dB.
Measures SignalToNoise(const StatisticsSet& set, Site site, const Fold& total);

// Share of the energy in the top 1 % of channels (at least one); NaN without channels.
double TopChannelEnergy(const ExactSums& energy);
// Number of values above 100 and above 1000 times the median of |x|: Sun et al., arXiv 2402.17762. To within a bin (0.8
// %).
uint64_t MassiveActivations(const OutlierStatistics& outliers);

}  // namespace tare
