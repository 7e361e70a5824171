// SPDX-License-Identifier: Apache-2.0
// Statistics of one job: a model's values on an input, site by site. A job is cut into units of work (batches; the
// weights belong to the first), and a set knows which of them it has seen: sets of one job and of different units merge
// to what one run over all of them gives, bit for bit. Sets of different jobs, or of the same units, are refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "quant/observe/site_statistics.h"

namespace tare {

struct StatisticsSet {
  // All that decides the figures: hashes of model and input, version, options. What merges has it in common.
  std::map<std::string, std::string> job;
  std::vector<std::string> formats;  // whose error was measured, as in SumNames
  std::vector<uint8_t> units;        // 1: seen
  uint64_t positions = 0;            // of the units seen: rows of the sequences, `<s>` among them
  uint64_t tokens = 0;               // the same without `<s>`
  std::map<int, float> lambda;       // of the differential layers
  std::map<SiteKey, SiteStatistics> sites;

  bool Whole() const;
  // The sums that this site has here.
  std::vector<std::string> Sums(Site site) const { return SumNames(site, formats); }
  // The index of the sum of this name; nullopt where the site has none.
  std::optional<size_t> FindSum(Site site, const std::string& name) const;

  // `where` and `other_where` name the two in messages. Throws Error for sets of different jobs and for units seen
  // twice.
  void Merge(const StatisticsSet& other, const std::string& where, const std::string& other_where);
  void MergeSites(const std::map<SiteKey, SiteStatistics>& others);

  friend bool operator==(const StatisticsSet&, const StatisticsSet&) = default;
};

}  // namespace tare
