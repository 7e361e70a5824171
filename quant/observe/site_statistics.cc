// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/site_statistics.h"

#include <algorithm>
#include <optional>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/observe/row_measures.h"
#include "quant/plan/site_class.h"

namespace tare {

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
  if (site == Site::kProbs) {
    for (const char* name : {"entropy", "sink_mass", "early_sink_mass", "sink_sequences"}) names.push_back(name);
  }
  if (site == Site::kDifference) {
    for (const char* name : {"negative_mass", "cancellation", "first_map_x2"}) names.push_back(name);
  }
  if (site == Site::kProbs || site == Site::kDifference) {
    names.push_back("blocks");
    for (const double share : kSparsityShares) {
      for (const char* what : {"entries", "blocks", "entry_mass", "block_mass"})
        names.push_back(Formatted("{}_under_{}", what, share));
    }
    for (const char* name : {"marked_rows", "answer_mass", "noise_mass", "output_rows"}) names.push_back(name);
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
  return {.count = static_cast<long double>(values),
          .x = sums.Value(kSumX),
          .x2 = sums.Value(kSumX2),
          .x3 = sums.Value(kSumX3),
          .x4 = sums.Value(kSumX4)};
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

}  // namespace tare
