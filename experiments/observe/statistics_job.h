// SPDX-License-Identifier: Apache-2.0
// What statistics measure (sites, their formats' errors, attention on marked positions), and a job of units of work:
// --shard i/n runs units u with u mod n = i. Finished units stay beside the file (FILE.part), from which the job
// continues; the file is byte-identical. A unit is a batch of ForwardAll; the weights belong to the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/sequences.h"
#include "experiments/plan/model_sites.h"
#include "experiments/plan/shared_scales.h"
#include "quant/format/format.h"
#include "quant/observe/site_visitor.h"
#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"
#include "quant/plan/site.h"
#include "quant/statistics/statistics_file.h"

namespace tare {

// Sites or groups with plans' selectors, by commas (attn_logits[l0-3,m1],layer_out,weights); empty: all of the model's.
class SiteSelection {
 public:
  // Throws Error for a name or selector that matches nothing in this model.
  static SiteSelection Parse(std::string_view text, const ModelSites& model);

  // Whether any part of the site and layer is selected; and whether this head and map of it is.
  bool Wants(Site site, std::optional<int> layer) const;
  bool Admits(const SiteKey& key) const;
  // The canonical form; "all" for everything.
  const std::string& canonical() const { return canonical_; }

 private:
  std::vector<Rule> rules_;
  std::string canonical_;
};

// A format whose error is measured. A scale belongs to the row (row, token; group<N> and block<N>: N neighbours of it)
// or spans a sequence's rows (tensor, head, channel), after an earlier pass for the largest code's magnitude. Formats
// with own blocks (mxfp4, without granularity) place them as plans do: along the tokens for v.
struct MeasuredFormat {
  Format format = Format::kInt8;
  Granularity granularity;
  std::string name;  // as in statistics: "int8/row"

  // A weight's channel is an output channel, as in plans: one row.
  bool SpansRows(Site site) const;
};

// Parses "int8/row,int6/group64,int4/tensor,mxfp4"; empty text means none. Throws Error.
std::vector<MeasuredFormat> ParseMeasuredFormats(std::string_view text);
std::vector<std::string> NamesOf(std::span<const MeasuredFormat> formats);
// The formats measured at the site (IsMeasured, quant/observe/statistics_set.h), with blocks as they lie there.
std::vector<MeasuredFormat> FormatsOf(Site site, std::span<const MeasuredFormat> formats);

// The magnitudes that become the largest code, for scales that span rows.
struct WideClips {
  float tensor = 0.0f, head = 0.0f;
  std::span<const float> channels;  // one per value of the row
};

// Rounds a finite row with absmax scales. A site never negative (probs) uses the unsigned format of as many bits.
void QuantizeRow(const MeasuredFormat& format, Site site, const WideClips& clips, std::span<const float> row,
                 std::span<float> quantized);
// As QuantizeRow, for all rows of a block, in place; not for scales per channel over a few tokens.
void QuantizeBlock(const MeasuredFormat& format, const WideClips& clips, const SiteBlock& block);

// Finds the largest codes' magnitudes for scales that span rows, in a pass over each batch before the measuring one. A
// scale covers one sequence (all rows of a weight), as in simulated plans (simulated_quantizer.h):
//
//   tensor    all selected heads and maps, or all channels, of a layer's site
//   head      one head and map
//   channel   one channel, of its head if there are heads
//
// Rows with a value that is not finite are left out, as in the errors. Keeps one float per channel of a batch's
// sequences; these depend on that batch alone, so any split of a job into batches gives the same values.
class WideScales : public SiteVisitor {
 public:
  // The selection outlives it.
  WideScales(const SiteSelection& selection, std::span<const MeasuredFormat> formats);

  // Whether any selected site has such a format; otherwise no extra pass is needed.
  bool Any() const;
  bool Wants(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t) override;
  void Visit(const SiteBlock& block, int thread) override;

  // A block's scales in the next pass of the batch, valid until the next. Zeros for sites that are not selected.
  WideClips Find(const SiteBlock& block) const;

 private:
  bool Admits(const SiteBlock& block) const;

  const SiteSelection& selection_;
  std::vector<bool> spans_, by_channel_;  // per site
  SharedMaxima maxima_;                   // of tensors and heads
  SharedMaxima channels_;                 // of heads, if a format has scales per channel
};

// Marks positions of a text as answer or noise, to measure the attention on each (Differential Transformer, Table 3).
// JSON lines, one per marked sequence; positions count from 0, with `<s>`; ranges are [begin, end):
//
//   {"sequence": 0, "answer": [[10, 14]], "noise": [[1, 10], [14, 60]], "queries": [63, 64]}
//
// queries: positions with measured attention; default: the last. noise: default: 1 to the first query except answers.
//
// Or multiple-choice items whose true ending occurs in the context (needles in a haystack), as an input of statistics.
// An item is one sequence, `<s>`, context and true ending, tokenized as in the choice task, with marks:
//
//   queries  the positions that predict the ending's tokens
//   answer   the ending's tokens wherever they occur in the context
//   noise    every other position of the context but `<s>`

struct TokenRange {
  int64_t begin = 0, end = 0;
  int64_t Size() const { return end - begin; }
  bool Contains(int64_t position) const { return begin <= position && position < end; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

struct Marks {
  std::vector<TokenRange> answer, noise;
  TokenRange queries;
};

struct MarkedSpans {
  std::map<int64_t, Marks> marks;  // by sequence
  std::string sha256;              // of their file; empty without marks

  // lengths: of the sequences. Throws Error for a line not of this form, or a range outside its sequence.
  static MarkedSpans Load(const std::filesystem::path& path, std::span<const int64_t> lengths);

  const Marks* Find(int64_t sequence) const;  // null if it has none
};

// The parts of [begin, end) outside the ranges, which must be sorted.
std::vector<TokenRange> Between(const std::vector<TokenRange>& ranges, int64_t begin, int64_t end);

// Sum of |row| over the ranges, as far as the row reaches; first: the position of its first value.
double MassOf(std::span<const float> row, std::span<const TokenRange> ranges, int64_t first = 0);

struct MarkedItems {
  TokenInput input;  // path, hash and `<s>`
  std::vector<ScoredSequence> sequences;
  MarkedSpans spans;
};

// `limit` items (tasks/items/lines.h); 0: all. Throws Error with file and line for an ending that does not occur in its
// context as tokens of its own, and for an item longer than the model's positions.
MarkedItems LoadMarkedItems(const std::filesystem::path& path, const std::filesystem::path& model_folder,
                            const ModelConfig& config, size_t limit = 0, TakeFrom from = TakeFrom::kStart);

// ---- The job

class FullObserver;

// The sink rate is of the first 64 queries, and needs one.
inline constexpr int64_t kMostSkipped = 63;

struct StatisticsOptions {
  std::string sites, formats;  // SiteSelection, ParseMeasuredFormats
  std::string calibrate;       // ParseCalibratedFormats
  MarkedSpans spans;           // of the sequences, or empty
  int64_t skip_first = kSkipFirst;
  int layers = 0;  // the model's first ones, alone; 0: all
  Shard shard;
  bool fresh = false;       // starts over where FILE.part or FILE is of this job
  Asked asked = {};         // for the next run, kept in FILE.part
  int64_t checkpoint = 64;  // sequences between two writes of FILE.part
};

// Hash of all lengths and ids, by which runs on the same sequences are recognised.
std::string HashOf(const std::vector<ScoredSequence>& sequences);

// Records sites, formats, calibrators, spans and skipped positions. Throws Error for a format that no site measures.
void AddOptions(StatisticsSet& set, const StatisticsOptions& options, const SiteSelection& sites,
                const ModelSites& model);

// Both are called with a unit's number.
struct UnitWork {
  std::function<std::span<const int64_t>(size_t)> lengths;  // in positions, of the unit's sequences
  // Shows the unit to the observer. A long one reports how many of its positions are done.
  std::function<void(size_t, const Progress& within)> run;
};

// Runs the unfinished units of the shard and writes the file, if `out` names one.
void CollectUnits(StatisticsSet& set, FullObserver& observer, const UnitWork& work, bool has_bos,
                  const StatisticsOptions& options, const std::filesystem::path& out, const Progress& progress);

// An empty set for the job.
StatisticsSet EmptyStatistics(const Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                              const StatisticsOptions& options, const std::string& version);

// Observes the shard's unfinished units and writes the file; returns its contents.
StatisticsSet CollectStatistics(Model& model, const TokenInput& input, const std::vector<ScoredSequence>& sequences,
                                const StatisticsOptions& options, const std::string& version,
                                const std::filesystem::path& out, const Progress& progress);

}  // namespace tare
