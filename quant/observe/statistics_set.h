// SPDX-License-Identifier: Apache-2.0
// Statistics of one job: a model's values on an input, site by site. A job is cut into units of work (batches; the
// weights belong to the first), and a set records which of them it has seen. Sets of the same job with different units
// merge to exactly the bits of one run over all units; others are refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "quant/observe/site_statistics.h"

namespace tare {

struct StatisticsSet {
  // Everything that determines the figures: hashes of model and input, version, options. Sets can merge only if it is
  // equal.
  std::map<std::string, std::string> job;
  std::vector<std::string> formats;  // whose error was measured, as in SumNames
  std::vector<uint8_t> units;        // 1: seen
  uint64_t positions = 0;            // rows of the sequences in the units seen, with `<s>`
  uint64_t tokens = 0;               // the same without `<s>`
  std::map<int, float> lambda;       // of the differential layers
  std::map<SiteKey, SiteStatistics> sites;

  bool Whole() const;
  // The names of this site's sums.
  std::vector<std::string> Sums(Site site) const { return SumNames(site, formats); }
  // The index of the sum with this name; nullopt if the site has none.
  std::optional<size_t> FindSum(Site site, const std::string& name) const;

  // `where` and `other_where` name the two in messages. Throws Error for sets of different jobs and for units seen
  // twice.
  void Merge(const StatisticsSet& other, const std::string& where, const std::string& other_where);
  void MergeSites(const std::map<SiteKey, SiteStatistics>& others);

  friend bool operator==(const StatisticsSet&, const StatisticsSet&) = default;
};

}  // namespace tare
