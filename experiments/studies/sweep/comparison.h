// SPDX-License-Identifier: Apache-2.0
// Compares a sweep's cells, figure by figure: a plan's change from the unquantized model, and how much more it changes
// than the first model's (the difference of their drops). Versions of one model (SweepOptions::source) change from that
// model; differences are between those of equally many bits (StoredVersion::Bits), or from the first version. All are
// paired by the items or windows that runs share, and come with their significance:
//
//             error            95 % interval                     p of no difference
//   items     s(d) / sqrt(n)   Bonett and Price                  McNemar's, mid-p
//   drops     of a difference of drops where kFewestOfDrops items differ or more, as windows (independent units)
//   windows   significance/mean_error.h gives all three, of paired runs; and samples, where items share some
//             (tasks/task.h)
//
// p_holm is Holm's over the changes of each task's primary figure (TaskKind::figures), or over their differences of
// drops; other figures have no p_holm. A divergence cannot be 0, so that it changed from 0 has no p. One pair of models
// is one sample of training: a difference applies to these two checkpoints, not to their architectures.
//
// And what another calibration text or training changes (spreads.cc).
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/significance/inference.h"
#include "experiments/significance/mean_error.h"
#include "experiments/studies/sweep/sweep.h"
#include "experiments/table/table.h"
#include "experiments/tasks/task.h"
#include "quant/file/json.h"

namespace tare {

// With fewer changed items, most are unchanged, and the mean is not near a normal distribution.
inline constexpr int64_t kFewestOfDrops = 10;

struct Comparison {
  size_t cell = 0, figure = 0;  // the quantized run's index among the cells, and its figure's
  std::string against;          // for a difference of drops, the model that it is from
  double value = 0;
  std::optional<double> error;
  std::optional<Interval> interval;
  std::optional<Interval> loss;         // of a change, 90 %: for two one-sided tests (below)
  std::optional<OutcomeChanges> items;  // gained and lost
  std::optional<double> p, p_holm;
  bool primary = true;               // whether it is of its task's primary figure
  bool few_units = false;            // too few windows or samples for an error
  int64_t windows = 0;               // of a text that the error is over; 0: other units, or no error
  std::optional<double> detectable;  // with these items or windows (significance/inference.h)
  std::optional<int64_t> for_half;   // items or windows that would show half of it

  bool Significant() const { return p_holm && *p_holm < kLevel; }
  // Too few items changed for any p below 0.05.
  bool TooFew() const { return primary && items && items->gained + items->lost < kFewestChanged; }
};

// sum_r sign_r x figure of run r, for one model over the same units; a change has signs -1 and 1. Items answered in all
// runs are compared by item, or by sample if they share some; others by window.
Comparison Compare(const std::vector<const Figure*>& runs, const std::vector<double>& signs);

// What `get` has of all, each once, in the order of the first.
template <typename All, typename Get>
auto Distinct(All&& all, Get get) {
  std::vector<std::decay_t<decltype(get(*std::ranges::begin(all)))>> seen;
  for (const auto& one : all) {
    if (!std::ranges::contains(seen, get(one))) seen.push_back(get(one));
  }
  return seen;
}

// Sets p_holm of those that have a p.
template <typename All>
void AddHolm(All&& all) {
  std::vector<double> p;
  for (const auto& one : all) {
    if (one.p) p.push_back(*one.p);
  }
  const std::vector<double> adjusted = Holm(p);
  auto next = adjusted.begin();
  for (auto& one : all) {
    if (one.p) one.p_holm = *next++;
  }
}

struct Comparisons {
  std::vector<Comparison> changes, drops;  // in the order of the cells
  std::string of_source;                   // the model of which all are versions; "": none
  bool look_ahead = false;                 // whether a plan among them looks ahead
  bool recipes = false;                    // or is a recipe of the literature (presets.h)
  double margin = 0;                       // of equivalence of the changes (below); 0: not asked
};
Comparisons CompareCells(const std::vector<SweepCell>& cells);

// Whether a change is shown to be small: two one-sided tests (Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987). A plan
// is lossless within m if its loss is shown to be above -m and below m, each at 5 %: if its 90 % interval
// (Comparison::loss) lies between. That no difference is significant shows nothing: few windows or items have none.
//
//   lossless    the interval lies between -m and m
//   worse       it lies above m             better: below -m
//   not shown   it holds an end, or there is none: too few windows, or equal changes of all
//
// A loss is a perplexity's rise as a share of it, a KL divergence in nats per token, or an accuracy's fall in points.
// 0.5 % are a perplexity 1.005 times as high, 0.005 nats, or one item of 200. Only primary figures are judged, at 5 %.

// "0.5%": 0.005. Throws UsageError for what is not above 0 and below 100 %.
double ParseMargin(std::string_view text);

const char* VerdictAt(double margin, const Comparison& change);

// "lossless within 0.5 % (-0.10 to 0.31)", "neither a difference nor equivalence within 0.005 nats per token is shown"
std::string EquivalenceText(double margin, const Comparison& change, const FigureKeys& figure);

// A cell's figure, its change, and the change's excess over the first model's or compared version's; null if none.
struct SweepFigure {
  const SweepCell* cell = nullptr;
  const Figure* figure = nullptr;
  const Comparison *change = nullptr, *drop = nullptr;

  bool InTables() const { return figure->keys.in_tables != nullptr; }
};
// All figures, in the order of the cells.
std::vector<SweepFigure> FiguresOf(const std::vector<SweepCell>& cells, const Comparisons& comparisons);
// One for each difference.
std::vector<SweepFigure> DifferencesOf(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

// A finished sweep: CSV with a row per cell and figure, JSON with everything, and a table of at most 80 columns: a
// block per figure, with each model's rows and change from unquantized, and its excess over the first model's change.
//
//   plan                        acc                     change from unquantized
//   attn_logits=int4/tensor ^   0.480 +/- 0.050         -0.230 +/- 0.058 *
//
// A change of a primary figure has the standard error of the paired difference, or an interval for few items; a star if
// significant after Holm, a question mark if too few items changed. Others have only intervals.

// The name of the preset that a canonical plan is, also if executed, for a column; lacking if none.
Json PresetJson(const std::string& plan);
Columns<Interval> IntervalColumns();  // low, high
// Columns of a comparison: value, stderr, low, high; then gained, lost, p, p_holm, detectable, for_half and, in JSON,
// significant and too_few. Columns for items are missing if there are none.
Columns<Comparison> SizeColumns();
Columns<Comparison> EvidenceColumns();
Json ComparisonJson(const Comparison& comparison);

// model, task, site, format, granularity, bits, key_bits, value_bits (plan_report.h), preset, plan, executed, figure,
// value, stderr, low, high, change, change_stderr, change_low, change_high, n; gained, lost, p, p_holm, detectable,
// for_half of the change; against, difference and the same for differences of drops. low and high are of 95 %
// intervals, the value's only for accuracies. A stored version has its file's bits and plan. Other fields are empty.
std::string SweepCsv(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

// tare.sweep/3: {"schema", "level", "cells": [{.., "key", "result", "changes": [{"figure", "primary", ..}],
// "differences": [..]}]}
Json SweepJson(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

std::string SweepTable(const std::vector<SweepCell>& cells, const Comparisons& comparisons);

// "-0.230 +/- 0.058 *"; an interval for few changed items or secondary figures. `format`: the value's, without a sign.
std::string ComparisonText(const Comparison& comparison, const char* format);

// Lines of a legend: why some have a question mark, errors and no star, or no errors.
std::string MarksLegend(const std::vector<const Comparison*>& of);

// The lines below the table that explain its marks.
std::string SweepLegend(const Comparisons& comparisons);

// What another calibration text changes: versions of a model by the same method and plan from several cuts of one text
// (tare quantize --cut i/n). Cuts are samples (significance/mean_error.h): the interval is of another calibration text,
// not of another scored text. Other methods' groups of the same cuts compare cut by cut: the mean d of differences,
// deviation s, has the interval of samples and p of t = d / (s / sqrt(n)), Student's with n - 1 degrees of freedom.
//
// And what another training changes: the spread of differences of drops over pairs, the same two recipes from other
// seeds, each pair compared by itself (tare compare). The deviation contains each pair's error from its items or
// windows. Models that differ only in the cut.
struct CutModels {
  std::vector<std::string> names;  // in the order of their cuts; at least two
  std::string alike;               // plan, source, text and cuts: groups that share these may differ in the method

  bool operator==(const CutModels&) const = default;
};

// All such groups. Reads each model's origin.
std::vector<CutModels> ModelsByCuts(const std::vector<std::filesystem::path>& models);

struct CutSpread {
  CutModels models;
  std::string task, plan;  // "f32": as stored
  FigureKeys figure;
  bool primary = true;                  // of its task
  std::vector<double> values, changes;  // by cut; changes from unquantized: empty where a cut has none
  SampleMean value;
  std::optional<SampleMean> change;

  std::string Name() const;  // "gptq-0.h5 .. gptq-4.h5", and the plan unless they run as stored
};

// The spread of every figure that tables show, if all models of a group have it.
std::vector<CutSpread> SpreadOverCuts(const std::vector<SweepCell>& cells, const Comparisons& comparisons,
                                      const std::vector<CutModels>& groups);

std::string CutSpreadTable(const std::vector<CutSpread>& spreads);  // for people, within 80 columns; "" for none
// For programs: models, alike, task, plan, figure, cuts, and mean, deviation, low, high, all of value and change.
Table CutSpreads(const std::vector<CutSpread>& spreads);
// A tare.sweep/3 of two models, as in compare.json, and where it is from.
struct ComparedPair {
  std::string where;
  Json sweep;
};
// Reads the folder's compare.json. Throws Error if it is missing or does not compare two models.
ComparedPair ReadComparedPair(const std::filesystem::path& folder);

struct PairSpread {
  std::string task, plan;  // "attn_logits=int4/row", "int8 executed"
  FigureKeys figure;
  std::vector<double> differences;  // in the order of the pairs, or of the cuts
  SampleMean of_pairs = {};
  std::optional<double> p = {}, p_holm = {};  // between methods, of primary figures

  bool Significant() const { return p_holm && *p_holm < kLevel; }
};

// Needs two pairs or more; takes every difference of the first that tables show. Throws Error, naming the pair, for
// other tasks, windows or plans, for models in the other order, and for a pair given twice.
std::vector<PairSpread> SpreadOverPairs(const std::vector<ComparedPair>& pairs);

// How much higher a figure is by one method than by another on the same cuts: every two methods once, the later minus
// the earlier, in the place of the plan "b-0.h5 .. b-4.h5 minus a-0.h5 .. a-4.h5".
std::vector<PairSpread> DifferencesOverCuts(const std::vector<CutSpread>& spreads);

std::string PairSpreadTable(const std::vector<PairSpread>& spreads);  // for people, within 80 columns
std::string CutDifferenceTable(const std::vector<PairSpread>& differences);
// For programs: task, plan, figure, pairs, mean, deviation, low, high, an array of differences; of methods p, p_holm.
Table PairSpreads(const std::vector<PairSpread>& spreads);

}  // namespace tare
