// SPDX-License-Identifier: Apache-2.0
// Statistics of every selected site of a model: a SiteVisitor for what the forward pass shows, and a walk over the
// weights. The result is bit-identical for any number of threads and any order of blocks.
//
// One pass measures all positions, and the rest without each sequence's skip_first; each row is measured once.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/observe/statistics_job.h"
#include "kernels/attention/heads.h"
#include "quant/observe/row_measures.h"
#include "quant/observe/site_visitor.h"
#include "quant/observe/statistics_set.h"

namespace tare {

// The error of attention's output when small entries, or blocks of keys with only small entries, are skipped, as by a
// sparse kernel or by a cache that drops keys. A skipped entry counts as 0; nothing is renormalised.

// V of one output head: one slice, or two side by side; rows are keys.
struct ValueSlices {
  std::array<const float*, 2> slices{};
  int width = 0;  // of a slice; rows are stored one after another

  int Count() const { return slices[1] == nullptr ? 1 : 2; }
};

// ||sum of skipped terms|| / ||sum of all||, Euclidean, for each of kSparsityShares; 0 if the output is 0.
struct SkippedOutput {
  std::array<double, kSparsityShares.size()> entries{}, blocks{};
};

// The row must be finite; sums over keys are f32. Empty if V is not finite or the sum overflows.
std::optional<SkippedOutput> MeasureSkipped(std::span<const float> row, const ValueSlices& v);

// Copies of V of the current layer, as the pass shows it before the layer's attention.
class ValueStore {
 public:
  ValueStore() = default;
  explicit ValueStore(std::vector<std::vector<OutputHead>> heads) : heads_(std::move(heads)) {}

  // Whether the output of this site's maps follows from V: for the difference, and for maps without a difference.
  bool Serves(Site site, std::optional<int> layer) const;
  void Keep(const SiteBlock& v);
  // For a block of such a site; nullopt if its V was not shown.
  std::optional<ValueSlices> Find(const SiteBlock& map) const;

 private:
  struct Values {
    int width = 0;
    std::vector<float> rows;
  };

  std::vector<std::vector<OutputHead>> heads_;  // per layer
  mutable std::mutex mutex_;
  std::optional<int> layer_;
  std::map<std::pair<int64_t, int>, Values> values_;  // by sequence and head
};

// Whether row r counts. The softmax of one key is 1 whatever its logit is, so that logit is no outlier.
inline bool Counts(const SiteBlock& block, int64_t r) {
  return block.site != Site::kAttnLogits || block.Columns(r) - block.First(r) > 1;
}

// Measures of the first rows of a block, or of the rows after them.
struct RowMeasures {
  bool any = false;     // whether a row counted
  uint64_t rows = 0;    // rows with finite values only
  uint64_t values = 0;  // finite values
  float absmax = 0.0f, largest_row_norm = 0.0f;
  std::optional<float> largest;
  std::vector<float> channel_absmax;   // [columns]; empty where columns are keys, and without rows
  std::vector<double> channel_energy;  // [64-row groups][columns]
};

struct BlockMeasures {
  int64_t first_rows = 0;         // rows of positions before skip_first
  RowMeasures first, rest;        // of these rows, and of the others
  size_t sums = 0;                // per row
  std::vector<double> row_sums;   // [rows of the block][sums]; zeros of rows that do not count
  std::vector<float> row_absmax;  // [rows of the block]
  // Rows whose moments are about a centre; their power sums among row_sums are 0.
  std::vector<std::pair<int64_t, Moments>> centred;
};

// Measures a block of a site's values: a double per row and sum (quant/observe/statistics_set.h), rounded per row,
// which no split of the stream cuts. One per thread: it remembers the first map's rows for the difference after them.
class BlockMeter {
 public:
  // Positions of the published sink rate: the share that the first kSinkTokens queries give to the first key.
  static constexpr int64_t kSinkTokens = 64;
  static constexpr double kSinkShare = 0.3;

  // The output is computed for every kOutputStride-th query only, because each costs a product with V.
  static constexpr int64_t kOutputStride = 16;

  // All but the last must outlive it. skip_first: positions of each sequence measured apart; none of weights.
  BlockMeter(std::span<const MeasuredFormat> formats, const MarkedSpans& spans, const ValueStore& values,
             const WideScales& scales, int64_t skip_first);

  const BlockMeasures& Measure(const SiteBlock& block);  // valid until the next call

 private:
  void QuantizeColumns(const SiteBlock& block);
  RowMeasures& PartOf(int64_t r) { return r < measures_.first_rows ? measures_.first : measures_.rest; }
  void MeasureRow(const SiteBlock& block, int64_t r);
  void MeasureFinite(const SiteBlock& block, int64_t r, std::span<const float> row, double* sums);
  void MeasureMap(const SiteBlock& block, int64_t r, std::span<const float> row, double* sums);
  // next: the first of a row's sums for marked spans, and for attention's lost output.
  void MeasureMarks(const SiteBlock& block, int64_t r, std::span<const float> row, double mass, double* next);
  void MeasureOutput(const SiteBlock& block, int64_t r, std::span<const float> row, double* next);
  void MeasureChannels(int64_t r, std::span<const float> row);

  // Rows of the first map that this thread saw last: each row's sum of squares.
  struct FirstMap {
    std::optional<int> layer;
    int64_t sequence = -1, first_row = -1;
    std::vector<double> squares;
  };

  const MarkedSpans& spans_;
  const ValueStore& values_;
  const WideScales& scales_;
  const int64_t skip_first_;
  std::vector<std::vector<MeasuredFormat>> formats_;  // per site
  std::vector<size_t> sums_of_site_;
  WideClips clips_;  // of the current block
  BlockMeasures measures_;
  std::vector<float> finite_, quantized_;
  // The current block under each format with scales per column, in the formats' order: [rows][columns] each.
  std::vector<float> by_columns_;
  FirstMap first_map_;
};

class FullObserver : public SiteVisitor {
 public:
  // heads: of every layer, to measure the loss of attention's output; if empty, that is not measured. skip_first:
  // positions that the rest leaves out, fewer than BlockMeter::kSinkTokens.
  FullObserver(SiteSelection selection, std::vector<MeasuredFormat> formats, MarkedSpans spans = {},
               std::vector<std::vector<OutputHead>> heads = {}, int64_t skip_first = kSkipFirst);
  ~FullObserver() override;

  bool Wants(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t slots) override;  // the previous batch's sequences are now complete
  void Visit(const SiteBlock& block, int thread) override;

  // Must see each batch in an earlier pass, for formats whose scales span rows; null if not needed.
  SiteVisitor* FirstPass() { return scales_.Any() ? &scales_ : nullptr; }

  // Observes the selected weights: rows are output channels, columns input channels, all in one "sequence".
  void ObserveWeights(const Model& model);

  // Returns the statistics since the last call. Not during a pass.
  ObservedSites Take();

 private:
  struct Target;
  struct Worker;

  bool NeedsValues(std::optional<int> layer) const;
  Target& TargetOf(const SiteKey& key);
  static void CountOutliers(const SiteBlock& block, const BlockMeasures& measures, Target& target, Worker& worker);
  static void Gather(const SiteBlock& block, const BlockMeasures& measures, Target& target);
  void CloseSequences();
  // Measures all matrices of a site in a layer as one, one below another.
  void ObserveMatrices(Site site, std::optional<int> layer, std::span<const WeightMatrix> weights);

  const SiteSelection selection_;
  const std::vector<MeasuredFormat> formats_;
  WideScales scales_;
  const MarkedSpans spans_;
  ValueStore values_;
  const int64_t skip_first_;
  const std::vector<std::string> format_names_;
  std::mutex mutex_;  // protects targets_, not their contents
  std::map<SiteKey, std::unique_ptr<Target>> targets_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one per thread
};

// Observes kOutlierSites alone (statistics_report.h).
FullObserver OutlierObserver(const ModelConfig& config);

}  // namespace tare
