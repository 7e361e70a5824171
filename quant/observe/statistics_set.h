// SPDX-License-Identifier: Apache-2.0
// Statistics of one job: a model's values on an input, site by site. A job is cut into units of work (batches; the
// weights belong to the first), and a set records which of them it has seen. Sets of the same job with different units
// merge to exactly the bits of one run over all units; others are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/observe/outliers.h"
#include "quant/observe/row_measures.h"
#include "quant/plan/site.h"

namespace tare {

// The first sums of every site; the sums after them depend on the site (SumNames).
enum BaseSum : size_t {
  kSumX,  // of the finite values
  kSumX2,
  kSumX3,
  kSumX4,
  kSumMagnitude,         // |x|
  kSumRowNorm,           // per row: its Euclidean norm
  kSumRowKurtosis,       // per row of channels: Moments::RowKurtosis, 0 for a row without spread
  kSumSequenceKurtosis,  // per sequence: Moments::QuantizableKurtosis
  kSumSequenceAbsmax,    // per sequence: its infinity norm
  kBaseSums,
};

// Whether the columns of the site's rows are channels; those of attention logits and maps are keys.
bool HasChannels(Site site);

// Whether the error of FORMAT/GRANULARITY is measured at the site: per head only with heads, per channel only with
// channels, others everywhere; int3 and int2 of weights only. A FORMAT alone has its own blocks (mxfp4).
bool IsMeasured(Site site, std::string_view format);

// Names of a site's sums in order: those of BaseSum; then, for an attention map (probs, difference), those of maps;
// then four for each measured format: FORMAT/GRANULARITY.error2, .error1, .product, .square.
std::vector<std::string> SumNames(Site site, const std::vector<std::string>& formats = {});

// Sums over one sequence, or a group of them. Rows with a value not finite count only in sums over values, without it.
struct Fold {
  explicit Fold(size_t count = 0) : sums(count) {}

  uint64_t sequences = 0, rows = 0, values = 0;
  float absmax = 0.0f;
  ExactSums sums;

  // About a centre near the mean. The sums are exact, and so is moving them there.
  Moments Powers() const;
  void AddPowers(const Moments& moments);  // their sums in double, to those about 0
  void Merge(const Fold& other);
  friend bool operator==(const Fold&, const Fold&) = default;
};

// All statistics of one (site, layer, head, map): integers, maxima and exact sums only, so merging any split of the
// stream into sequences, in any order, gives equal bits. Every figure is a function of these. Sums are kept separately
// for kFolds groups of sequences, so that intervals over sequences need a fixed amount of memory.
struct SiteStatistics {
  static constexpr int kFolds = 32;  // sequence s belongs to fold s mod kFolds

  explicit SiteStatistics(size_t sums = 0) : folds(kFolds, Fold(sums)) {}

  OutlierStatistics outliers;
  std::vector<Fold> folds;
  std::optional<float> largest;  // with its sign
  float largest_row_norm = 0.0f;
  std::vector<float> token_absmax;    // per position of the sequence (of a weight: per output channel)
  std::vector<float> channel_absmax;  // [columns]; empty for attention maps and logits
  ExactSums channel_energy;           // [columns] sums of x^2

  Fold Total() const;
  void Merge(const SiteStatistics& other);
  // Merges all but the folds, whose sums over whole sequences are not those of their parts.
  void MergeValues(const SiteStatistics& other);
  friend bool operator==(const SiteStatistics&, const SiteStatistics&) = default;
};

// values[i] = max(values[i], other[i]); grows to other's size.
void MergeMaxima(std::vector<float>& values, const std::vector<float>& other);

// `<s>` has no context, so its hidden state is one constant that every window repeats.
inline constexpr int64_t kSkipFirst = 1;

// Statistics of the same values twice: of all positions, and of the rest after the first skip_first positions of every
// sequence. The rest has no weights, whose rows are not positions, and it is empty where no position is skipped.
struct ObservedSites {
  std::map<SiteKey, SiteStatistics> sites, rest;
};

// One of the two maps, with its first position.
struct SitesFrom {
  int64_t from;
  const std::map<SiteKey, SiteStatistics>& sites;
};

struct StatisticsSet {
  // What determines the figures: hashes of model and input, version, options. Only sets that are equal in it merge.
  std::map<std::string, std::string> job;
  std::vector<std::string> formats;               // whose error was measured, as in SumNames
  std::vector<uint8_t> units;                     // 1: seen
  uint64_t positions = 0;                         // rows of the sequences in the units seen, with `<s>`
  uint64_t tokens = 0;                            // these rows without `<s>`
  std::map<int, float> lambda;                    // of the differential layers
  int64_t skip_first = 0;                         // positions that `rest` leaves out; 0: it is empty
  std::map<SiteKey, SiteStatistics> sites, rest;  // as in ObservedSites

  // `sites` from 0, then, where positions are skipped, `rest` from skip_first.
  std::vector<SitesFrom> Both() const;
  bool Whole() const;
  std::vector<std::string> Sums(Site site) const { return SumNames(site, formats); }

  // The first key of the job by which another set differs, or what else keeps the two from merging; "" of the same job.
  std::string DiffersIn(const StatisticsSet& other) const;
  // `where`, `other_where`: names in messages. Throws Error for sets of different jobs, and units seen twice.
  void Merge(const StatisticsSet& other, const std::string& where, const std::string& other_where);
  void MergeSites(const ObservedSites& others);

  friend bool operator==(const StatisticsSet&, const StatisticsSet&) = default;
};

// A site's figures, by name: `tare stats show --measures`, `tare stats diff` (docs/reference/statistics-file.md).
using Measures = std::vector<std::pair<std::string, double>>;  // NaN if undefined

// Sums in long double: over one group of sequences, several, or a bootstrap draw of them.
struct PlainSums {
  double sequences = 0, rows = 0, values = 0;
  float absmax = 0.0f;
  std::vector<long double> sums;
  Moments powers = {};

  static PlainSums Of(const Fold& fold);
  void Add(const PlainSums& other);
};

// Figures that follow from sums: means, moments, kurtosis in three variants, and figures of the site's own sums.
Measures SumMeasures(Site site, const std::vector<std::string>& names, const PlainSums& sums);

// The quantiles of magnitudes that measures, reports and files have.
inline constexpr std::pair<const char*, double> kQuantiles[] = {
    {"median", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};

// SumMeasures over all sequences, and figures that follow from counts and maxima: quantiles, energy of channels,
// massive activations, the largest value and norm. `statistics` are the key's, of all positions or of the rest.
Measures AllMeasures(const StatisticsSet& set, const SiteKey& key, const SiteStatistics& statistics);
inline Measures AllMeasures(const StatisticsSet& set, const SiteKey& key) {
  return AllMeasures(set, key, set.sites.at(key));
}

// For each format measured at the site ("int8/row"): 10 log10(sum x^2 / sum (x - y)^2) in dB.
Measures SignalToNoise(const StatisticsSet& set, Site site, const Fold& total);

// Share of the energy in the top 1 % of channels (at least one); NaN without channels.
double TopChannelEnergy(const ExactSums& energy);
// Number of values above 100 and 1000 times the median of |x|: Sun et al., arXiv 2402.17762. To within a bin (0.8 %).
uint64_t MassiveActivations(const OutlierStatistics& outliers);

}  // namespace tare
