// SPDX-License-Identifier: Apache-2.0
// A random statistics set: sites with and without channels, one without values, a rest of some of them, lambdas and a
// missing unit.
#pragma once

#include <cmath>
#include <random>

#include "quant/observe/statistics_set.h"
#include "tests/support/normal_floats.h"

namespace tare {

inline SiteStatistics DrawnStatistics(size_t sums, size_t channels, std::mt19937& random) {
  NormalFloats normal;
  SiteStatistics s(sums);
  s.channel_absmax.assign(channels, 1.5f);
  s.token_absmax = {1.0f, 2.0f, 0.0f};
  s.channel_energy = ExactSums(channels);
  s.largest_row_norm = 7.0f;
  for (int i = 0; i < 300; ++i) {
    const float value = normal(random);
    s.outliers.magnitudes.Add(value);
    s.outliers.top.Offer(value, {i, 0, 0, i % 7, i % 5});
    s.largest = std::max(s.largest.value_or(value), value);
    Fold& fold = s.folds[static_cast<size_t>(i) % s.folds.size()];
    ++fold.values;
    fold.absmax = std::max(fold.absmax, std::fabs(value));
    fold.sums.Add(static_cast<size_t>(i) % sums, value);
    if (channels > 0) s.channel_energy.Add(static_cast<size_t>(i) % channels, value);
  }
  return s;
}

// Layer and head of a place are those of the key.
inline void PlaceStatistics(const SiteKey& key, SiteStatistics& s) {
  OutlierStatistics outliers;
  outliers.magnitudes = s.outliers.magnitudes;
  for (const TopValue& t : s.outliers.top.Sorted())
    outliers.top.Offer(t.value,
                       {t.place.sequence, key.layer.value_or(-1), key.head.value_or(-1), t.place.row, t.place.column});
  outliers.AddNonfinite({3, key.layer.value_or(-1), key.head.value_or(-1), 4, 5});
  s.outliers = outliers;
}

inline StatisticsSet RandomStatistics() {
  std::mt19937 random(1);
  StatisticsSet set{.job = {{"model", "m"}, {"window", "512"}},
                    .formats = {"int8/row"},
                    .units = {1, 0, 1},
                    .positions = 100,
                    .tokens = 98,
                    .lambda = {{0, 0.2f}, {1, 0.35f}},
                    .skip_first = 1};
  for (const SiteKey key : {SiteKey{Site::kLayerOut, 0}, SiteKey{Site::kLayerOut, 1}}) {
    set.sites.emplace(key, DrawnStatistics(set.Sums(key.site).size(), 6, random));
  }
  set.sites.emplace(SiteKey{Site::kProbs, 0, 2, 1}, DrawnStatistics(set.Sums(Site::kProbs).size(), 0, random));
  set.sites.emplace(SiteKey{Site::kEmbed}, SiteStatistics(set.Sums(Site::kEmbed).size()));  // saw nothing
  for (const SiteKey key : {SiteKey{Site::kLayerOut, 0}, SiteKey{Site::kProbs, 0, 2, 1}}) {
    const size_t channels = set.sites.at(key).channel_absmax.size();
    set.rest.emplace(key, DrawnStatistics(set.Sums(key.site).size(), channels, random));
  }
  for (auto& [key, statistics] : set.sites) PlaceStatistics(key, statistics);
  for (auto& [key, statistics] : set.rest) PlaceStatistics(key, statistics);
  set.sites.at(SiteKey{Site::kEmbed}).outliers = OutlierStatistics();
  return set;
}

}  // namespace tare
