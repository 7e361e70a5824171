// SPDX-License-Identifier: Apache-2.0
// Refusals of other jobs' statistics, names of a site's sums, and merges of folds, sites and whole sets.
#include "quant/observe/statistics_set.h"

#include <algorithm>

#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// What DiffersIn names besides keys of the job.
constexpr const char *kSkipFirstKey = "skip_first", *kOthers = "units of work, formats or lambdas";

void RefuseStrangers(const StatisticsSet& a, const StatisticsSet& b, const std::string& where,
                     const std::string& other_where) {
  const std::string key = a.DiffersIn(b);
  if (key.empty()) return;
  if (key == kOthers)
    Fail("{}: {} differ from those of {}: statistics of different jobs do not merge", other_where, key, where);
  const auto value = [&](const StatisticsSet& set) {
    const std::string* const found = FindIn(set.job, key);
    return key == kSkipFirstKey ? std::to_string(set.skip_first) : found == nullptr ? "nothing" : *found;
  };
  Fail("{}: got {} {}, expected {} as in {}: statistics of different jobs do not merge", other_where, key, value(b),
       value(a), where);
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

constexpr size_t kPowers = 5;  // of values, x^0 to x^4

// Turns sums of x^k into those of (x - by)^k, a factor x - by at a time.
void Shift(ExactSums& powers, double by) {
  for (size_t factors = 1; factors < kPowers; ++factors) {
    for (size_t k = kPowers - 1; k >= factors; --k) powers.AddMultiple(k, powers, k - 1, -by);
  }
}

}  // namespace

std::string StatisticsSet::DiffersIn(const StatisticsSet& other) const {
  std::map<std::string, std::string> keys = job;
  keys.insert(other.job.begin(), other.job.end());
  for (const auto& [key, value] : keys) {
    const auto a = job.find(key), b = other.job.find(key);
    if (a == job.end() || b == other.job.end() || a->second != b->second) return key;
  }
  if (skip_first != other.skip_first) return kSkipFirstKey;
  const bool same = units.size() == other.units.size() && formats == other.formats && lambda == other.lambda;
  return same ? "" : kOthers;
}

bool HasChannels(Site site) { return site != Site::kAttnLogits && site != Site::kProbs && site != Site::kDifference; }

bool IsMeasured(Site site, std::string_view format) {
  if (format.starts_with("int") && !IsWeight(site)) {
    const std::optional<Format> codes = ParseFormat(format.substr(0, format.find('/')));
    if (codes && Info(*codes).bits < 4) return false;
  }
  if (format.ends_with("/channel")) return HasChannels(site);
  return !format.ends_with("/head") || ClassOf(site).dimensions.contains('h');
}

std::vector<std::string> SumNames(Site site, const std::vector<std::string>& formats) {
  std::vector<std::string> names = {
      "x", "x2", "x3", "x4", "magnitude", "row_norm", "row_kurtosis", "sequence_kurtosis", "sequence_absmax"};
  TARE_CHECK(names.size() == kBaseSums);
  const auto add = [&](std::initializer_list<const char*> more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  if (site == Site::kProbs) add({"entropy", "sink_mass", "early_sink_mass", "sink_sequences"});
  if (site == Site::kDifference) add({"negative_mass", "cancellation", "first_map_x2"});
  if (site == Site::kProbs || site == Site::kDifference) {
    names.push_back("blocks");
    for (const double share : kSparsityShares) {
      for (const char* what : {"entries", "blocks", "entry_mass", "block_mass"})
        names.push_back(Formatted("{}_under_{}", what, share));
    }
    add({"marked_rows", "answer_mass", "noise_mass", "output_rows"});
    for (const double share : kSparsityShares) {
      names.push_back(Formatted("output_error_entries_{}", share));
      names.push_back(Formatted("output_error_blocks_{}", share));
    }
  }
  for (const std::string& format : formats) {
    if (!IsMeasured(site, format)) continue;
    for (const char* what : {"error2", "error1", "product", "square"})
      names.push_back(Formatted("{}.{}", format, what));
  }
  return names;
}

Moments Fold::Powers() const {
  if (values == 0) return {};
  ExactSums powers(kPowers);
  powers.Add(0, static_cast<double>(values));
  for (size_t k = 1; k < kPowers; ++k) powers.AddMultiple(k, sums, kSumX + k - 1, 1.0);
  const double centre = Centre(static_cast<double>(powers.Value(1) / values));
  Shift(powers, centre);
  return {static_cast<long double>(values), powers.Value(1), powers.Value(2), powers.Value(3), powers.Value(4), centre};
}

void Fold::AddPowers(const Moments& moments) {
  ExactSums powers(kPowers);
  const long double of[kPowers] = {moments.count, moments.x, moments.x2, moments.x3, moments.x4};
  for (size_t k = 0; k < kPowers; ++k) powers.Add(k, static_cast<double>(of[k]));
  Shift(powers, -static_cast<double>(moments.centre));
  for (size_t k = 1; k < kPowers; ++k) sums.AddMultiple(kSumX + k - 1, powers, k, 1.0);
}

void Fold::Merge(const Fold& other) {
  sequences += other.sequences;
  rows += other.rows;
  values += other.values;
  absmax = std::max(absmax, other.absmax);
  sums.Merge(other.sums);
}

Fold SiteStatistics::Total() const {
  Fold total(folds.front().sums.size());
  for (const Fold& fold : folds) total.Merge(fold);
  return total;
}

void SiteStatistics::Merge(const SiteStatistics& other) {
  for (size_t i = 0; i < folds.size(); ++i) folds[i].Merge(other.folds[i]);
  MergeValues(other);
}

void SiteStatistics::MergeValues(const SiteStatistics& other) {
  outliers.Merge(other.outliers);
  if (other.largest) largest = std::max(largest.value_or(*other.largest), *other.largest);
  largest_row_norm = std::max(largest_row_norm, other.largest_row_norm);
  MergeMaxima(token_absmax, other.token_absmax);
  MergeMaxima(channel_absmax, other.channel_absmax);
  if (channel_energy.size() == 0) {
    channel_energy = other.channel_energy;
  } else if (other.channel_energy.size() != 0) {
    channel_energy.Merge(other.channel_energy);
  }
}

void MergeMaxima(std::vector<float>& values, const std::vector<float>& other) {
  if (values.size() < other.size()) values.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) values[i] = std::max(values[i], other[i]);
}

std::vector<SitesFrom> StatisticsSet::Both() const {
  std::vector<SitesFrom> both{{0, sites}};
  if (skip_first > 0) both.push_back({skip_first, rest});
  return both;
}

bool StatisticsSet::Whole() const {
  return std::ranges::all_of(units, [](uint8_t seen) { return seen == 1; });
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
