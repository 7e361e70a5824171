// SPDX-License-Identifier: Apache-2.0
// The cost of each part of a plan, from a sweep of f32, the plan, and each part alone and left out. F(.): a figure
//
//   alone      F(part) - F(f32)            its cost with everything else exact
//   taken out  F(plan) - F(all but part)   its cost with everything else quantized; half of all runs are for this
//   left over  F(plan) - F(f32) - sum of alone    0 if costs add up; above 0 if parts make each other worse
//
// left over is one contrast of all runs, paired by item or by window, so its error accounts for what they share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/plan/model_sites.h"
#include "experiments/studies/sweep/comparison.h"
#include "quant/plan/plan.h"

namespace tare {

// Cuts a plan into parts tested one at a time: by site, layer, head or group of heads, and map. A part is the quantized
// places that agree in these keys; a key that a site lacks (the layer of lm_head.w) is ignored.
//
//   int8 by site          q_proj.w  k_proj.w  ..  q  k  v  probs
//   q=int4/token,k=int4/token by layer, map   [l0,m1]  [l0,m2]  [l1,m1]  ..
//   q=int4/token,k=int4/token by head-group   [g0]  [g1]  ..
//
// A group is what shares keys or values (ModelSites::groups): in grouped-query attention a key head, its value head and
// the query and output heads that read them; in a differential model the key heads of both maps. Groups count from 0,
// by their first output head. Selectors of plans have no groups: the part's plans name the heads of each site.
//
// A scale that spans several parts (one per tensor, cut by head) then covers only the part.

struct Grain {
  bool site = false, layer = false, head = false, head_group = false, map = false;
};
// Parses "site,layer": one or more of site, layer, head or head-group, and map, each once. Throws Error.
Grain ParseGrain(std::string_view text);

struct PlanPart {
  std::string name;  // "q[l0]"; "[l0]" if not cut by site; "[g0]" of a group; "outside layers" for sites without one
  Plan alone;        // only this part of the plan
  Plan without;      // the plan without this part
};

// By sites, layers, heads and maps. Throws Error for fewer parts than `fewest`, and for parts no selector separates.
std::vector<PlanPart> PartsOf(const Plan& plan, const Grain& grain, const ModelSites& model, size_t fewest = 2);

// The costs of a part that are measured.
enum class PartCosts { kAlone, kAloneAndTakenOut };

// The plans to run, in order: f32, the plan, each part alone, and, if parts are taken out, all but each part.
std::vector<std::string> AttributionPlans(const Plan& plan, const std::vector<PlanPart>& parts, PartCosts costs);

// A plan of one model, cut into parts.
struct AttributionQuestion {
  Plan plan;
  std::string by;
  std::vector<PlanPart> parts;
  PartCosts costs;
};
// Cuts the plan into the only model's parts; their plans become the sweep's. Throws Error if it cannot be cut.
AttributionQuestion AskAttribution(SweepOptions& options, const std::string& plan, const std::string& by,
                                   PartCosts costs = PartCosts::kAloneAndTakenOut);

struct PartEffect {
  PlanPart part;
  Comparison alone;
  std::optional<Comparison> taken_out;  // if it is measured
};

struct Attribution {
  std::string task;
  FigureKeys figure;
  double baseline = 0, whole = 0;
  Comparison change;              // of the whole plan
  std::vector<PartEffect> parts;  // sorted by the size of alone
  Comparison sum;                 // sum of all alone
  Comparison left_over;
  int64_t count = 0;    // of the task's tokens or items
  bool primary = true;  // whether the figure is the task's primary one
};

// A model's attributions by figure; p_holm covers each task's primary one. Throws Error for a missing cell.
std::vector<Attribution> Attribute(const std::vector<SweepCell>& cells, const Plan& plan,
                                   const std::vector<PlanPart>& parts, PartCosts costs);

struct AttributedModel {
  std::vector<SweepCell> cells;
  std::vector<Attribution> attributions;
};

// Attributes by the sweep's cells, and by cells with a part taken out if an earlier run in the folder has them all.
AttributedModel AttributeCells(const SweepOptions& options, const AttributionQuestion& question,
                               std::vector<SweepCell> cells);

// One plan's attributions in two models: how much more each part alone costs the second, paired by common units:
//
//   difference = (F2(part) - F2(f32)) - (F1(part) - F1(f32))

struct PartPair {
  std::string part;
  std::optional<double> first, second;   // alone; empty if the plan has no such part in the model
  std::optional<Comparison> difference;  // for parts that both have
};

struct AttributionPair {
  std::string task;
  FigureKeys figure;
  std::vector<PartPair> parts;  // by the larger of the two, largest first
  PartPair whole;               // the whole plan; has no name
};

// One pair per common task, of its primary figure (for divergence the mean). p_holm covers all differences.
std::vector<AttributionPair> PairAttributions(const AttributedModel& first, const AttributedModel& second,
                                              const Plan& plan);

// Attributions as a table of at most 80 columns and for programs.
//
//   divergence:heldout, kld
//     f32 0.00e+00, the whole plan 5.23e-02
//     part              alone                               taken out
//     o_proj.w          +8.74e-03 [+8.03e-03, +9.20e-03] *  +9.89e-03 +/- 9.6e-04 *
//     ..
//     sum of alone      +4.95e-02 [+4.76e-02, +5.14e-02]
//     left over         +2.9e-03 [+1e-04, +5.1e-03]
//     the whole plan    +5.23e-02 [+4.94e-02, +5.47e-02] *

std::string AttributionTable(const std::vector<Attribution>& attributions);

// "+8.0e-03 [+7.7e-03, +8.4e-03] *"; with its error if it has no interval.
std::string ChangeWithEnds(const Comparison& change, const char* format);

// The lines below the table that explain its rows, and those with its marks.
inline constexpr const char* kPartsLegend =
    "alone: only this part quantized; taken out: the plan minus the plan without this\n"
    "part; left over: the whole plan's change minus the sum of the parts alone.\n";
std::string AttributionLegend(const std::vector<Attribution>& attributions);

// task, figure, part, effect (plan, alone, taken_out, sum, left_over), plan, and a sweep's columns of the change.
std::string AttributionCsv(const std::vector<Attribution>& attributions, const Plan& plan);

// tare.attribution/1: {"schema", "model", "plan", "by", "level", "draws", "seed", "figures": [{"task", "figure", "n",
// "baseline", "whole", "change", "parts": [{"part", "alone_plan", "without_plan", "alone", "taken_out"}], "sum",
// "left_over"}]}; taken_out is null if it was not run.
Json AttributionJson(const std::vector<Attribution>& attributions, const std::string& model, const Plan& plan,
                     const std::string& by);

// Attributions of two models side by side, as a table of at most 80 columns and for programs.
//
//   divergence:heldout, kld, of each part of int4 alone
//     A: novels-standard, B: novels-differential
//     part                        A           B  B minus A
//     o_proj.w            +2.44e-03   +8.74e-03  +6.30e-03 [+5.90e-03, +6.70e-03] *
//     ..
//     the whole plan      +4.10e-02   +5.23e-02  +1.1e-02 [+7e-03, +1.5e-02] *
//
// `plan` as the user gave it, such as a preset's name. models: the two names.
std::string AttributionPairTable(const std::vector<AttributionPair>& pairs, const std::string& plan,
                                 const std::vector<std::string>& models);

// The lines below the table that explain its marks.
std::string AttributionPairLegend(const std::vector<AttributionPair>& pairs);

// task, figure, part (empty: the whole plan), first, second, and for the difference the columns of a sweep's.
std::string AttributionPairCsv(const std::vector<AttributionPair>& pairs);

// [{"task", "figure", "part", "first", "second", "difference"}]; null where a model has no such part.
Json AttributionPairJson(const std::vector<AttributionPair>& pairs);

// What a plan and each of its sites cost in attention's output, of q, k and v that another program captured, told as
// `tare attribute` tells it of a model. The plans are simulated on each layer by itself (layer_attention.h). The figure
// of a layer, with o of head_out in f32 and o^ under a plan, over all tokens and channels:
//
//   nmse    sum (o^ - o)^2 / sum o^2
//
// 1e-4 is a relative error of 1 %; independent errors of sites add up. Units of its errors are sequences.

// How q, k and v were read: sequences, their tokens, heads, width and maps. Throws Error where heads do not fit.
Json ReadAs(const CapturedInput& input);

// One for each layer that has q, k and v. Throws Error, naming file and array, where there is none, where the arrays do
// not fit the layout's heads, and where a captured head_out is not what they give.
std::vector<Attribution> AttributeCaptured(const CapturedInput& input, const Plan& plan, const Progress& progress);

// The figure of each layer with the whole plan on integer kernels. Throws Error, too, for a plan that they cannot run.
std::map<int, double> ExecutedLosses(const CapturedInput& input, const Plan& plan, const Progress& progress);

}  // namespace tare
