// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/statistics_set.h"

#include <algorithm>
#include <set>

#include "quant/base/error.h"

namespace tare {
namespace {

std::string ValueOr(const std::map<std::string, std::string>& job, const std::string& key) {
  const auto found = job.find(key);
  return found == job.end() ? "nothing" : found->second;
}

void RefuseStrangers(const StatisticsSet& a, const StatisticsSet& b, const std::string& where,
                     const std::string& other_where) {
  std::set<std::string> keys;
  for (const auto& [key, value] : a.job) keys.insert(key);
  for (const auto& [key, value] : b.job) keys.insert(key);
  for (const std::string& key : keys) {
    const std::string value = ValueOr(a.job, key), other = ValueOr(b.job, key);
    if (value != other || a.job.contains(key) != b.job.contains(key))
      Fail("{}: got {} {}, expected {} as in {}: statistics of different jobs do not merge", other_where, key, other,
           value, where);
  }
  if (a.skip_first != b.skip_first)
    Fail("{}: got skip_first {}, expected {} as in {}: statistics of different jobs do not merge", other_where,
         b.skip_first, a.skip_first, where);
  if (a.units.size() != b.units.size() || a.formats != b.formats || a.lambda != b.lambda)
    Fail("{}: units of work, formats or lambdas differ from those of {}: statistics of different jobs do not merge",
         other_where, where);
}

// A site has the same channels in every row of a model, but a damaged file may differ from another file.
void RefuseOtherChannels(const StatisticsSet& a, const StatisticsSet& b, const std::string& where,
                         const std::string& other_where) {
  std::map<Site, size_t> channels;
  for (const StatisticsSet* set : {&a, &b}) {
    for (const auto& [from, sites] : set->Both()) {
      for (const auto& [key, statistics] : sites) {
        const size_t got = statistics.channel_energy.size();
        if (got == 0) continue;  // it saw nothing
        const size_t expected = channels.try_emplace(key.site, got).first->second;
        if (got != expected)
          Fail("{}: {}: got {} channels, expected the {} of {}; is one of the files damaged?", other_where,
               Name(key.site), got, expected, where);
      }
    }
  }
}

void MergeInto(std::map<SiteKey, SiteStatistics>& sites, const std::map<SiteKey, SiteStatistics>& others) {
  for (const auto& [key, statistics] : others) {
    const auto [place, is_new] = sites.try_emplace(key, statistics);
    if (!is_new) place->second.Merge(statistics);
  }
}

}  // namespace

std::vector<SitesFrom> StatisticsSet::Both() const {
  std::vector<SitesFrom> both{{0, sites}};
  if (skip_first > 0) both.push_back({skip_first, rest});
  return both;
}

bool StatisticsSet::Whole() const {
  return std::ranges::all_of(units, [](uint8_t seen) { return seen == 1; });
}

std::optional<size_t> StatisticsSet::FindSum(Site site, const std::string& name) const {
  const std::vector<std::string> names = Sums(site);
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<size_t>(found - names.begin());
}

void StatisticsSet::MergeSites(const ObservedSites& others) {
  MergeInto(sites, others.sites);
  MergeInto(rest, others.rest);
}

void StatisticsSet::Merge(const StatisticsSet& other, const std::string& where, const std::string& other_where) {
  RefuseStrangers(*this, other, where, other_where);
  RefuseOtherChannels(*this, other, where, other_where);
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i] == 1 && other.units[i] == 1)
      Fail("{}: unit {} of {} is also in {}; expected each shard once", other_where, i, units.size(), where);
  }
  for (size_t i = 0; i < units.size(); ++i) units[i] |= other.units[i];
  positions += other.positions;
  tokens += other.tokens;
  MergeInto(sites, other.sites);
  MergeInto(rest, other.rest);
}

}  // namespace tare
