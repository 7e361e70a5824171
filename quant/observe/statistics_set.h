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

// `<s>` has no context, so its hidden state is one constant that every window repeats.
inline constexpr int64_t kSkipFirst = 1;

// Statistics of the same values twice: of all positions, and of the rest after the first skip_first positions of every
// sequence. The rest has no weights, whose rows are not positions, and it is empty where no position is skipped.
struct ObservedSites {
  std::map<SiteKey, SiteStatistics> sites, rest;
};

// One of the two, with its first position.
struct SitesFrom {
  int64_t from;
  const std::map<SiteKey, SiteStatistics>& sites;
};

struct StatisticsSet {
  // Everything that determines the figures: hashes of model and input, version, options. Sets can merge only if it is
  // equal.
  std::map<std::string, std::string> job;
  std::vector<std::string> formats;               // whose error was measured, as in SumNames
  std::vector<uint8_t> units;                     // 1: seen
  uint64_t positions = 0;                         // rows of the sequences in the units seen, with `<s>`
  uint64_t tokens = 0;                            // the same without `<s>`
  std::map<int, float> lambda;                    // of the differential layers
  int64_t skip_first = 0;                         // positions that `rest` leaves out; 0: it is empty
  std::map<SiteKey, SiteStatistics> sites, rest;  // as in ObservedSites

  // `sites` from 0, then, where positions are skipped, `rest` from skip_first.
  std::vector<SitesFrom> Both() const;
  bool Whole() const;
  // The names of this site's sums.
  std::vector<std::string> Sums(Site site) const { return SumNames(site, formats); }
  // The index of the sum with this name; nullopt if the site has none.
  std::optional<size_t> FindSum(Site site, const std::string& name) const;

  // `where` and `other_where` name the two in messages. Throws Error for sets of different jobs and for units seen
  // twice.
  void Merge(const StatisticsSet& other, const std::string& where, const std::string& other_where);
  void MergeSites(const ObservedSites& others);

  friend bool operator==(const StatisticsSet&, const StatisticsSet&) = default;
};

}  // namespace tare
