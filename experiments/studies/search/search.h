// SPDX-License-Identifier: Apache-2.0
// The cheapest plan within a loss: losses of parts alone give an additive model's frontier. Losses do not add up, so
// some of its points are measured, by bisection from its cheap end.
//
// Or the least loss within a size, by the same model, measured beside the largest given plan that fits.
//
// frontier.cc: an additive model's choices; levels.cc: from what; costs.cc; search.cc: measures; search_table.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/studies/sweep/comparison.h"
#include "experiments/studies/sweep/sweep.h"
#include "quant/plan/plan.h"
#include "quant/plan/site.h"

namespace tare {

// The cheapest choice of one level per part, by an additive model: costs and losses add up.
//
//   minimise  sum of loss + mu x sum of cost   for every mu >= 0
//
// Each part follows the lower convex hull of its levels; all edges, by loss per cost saved, form the frontier. Its
// points are corners of the convex hull of all choices: no choice lies below the lines between them.
//
// Or the choice of least loss within a cost, by the same model: a knapsack with a choice per part, by dynamic
// programming (Kellerer, Pferschy, Pisinger: Knapsack Problems, 2004, chapter 11).
//
// Costs count in steps: the greatest common divisor of costs beyond each part's cheapest level, if whole and at most
// 65,536 steps of budget are left: then the choice is best. Else 65,536 steps of what is left, costs rounded up: a
// choice never costs more than the budget, and loses no more than the best one for a budget smaller by a step per part.

struct LevelCost {
  double cost = 0, loss = 0;
};

struct FrontierPoint {
  std::vector<size_t> levels;  // of each part
  double cost = 0, loss = 0;   // sums
  size_t moved = 0;            // the part whose level differs from the point before; undefined for the first point
};

// A search's choices for each part, a site in one layer: its levels in the given plans, and none. A plan has one level
// per part: int8, int6 and int4 give a weight three, and an input of linear layers, int8 in all of them, one.

// Writes a choice per site and layer as few rules:
//
//   weights int4/channel, except down_proj.w in layers 0, 3  ->  weights=int4/channel,down_proj.w[l0]=int8/channel,..
//
// A site or group gets one rule for the level that saves the most text; runs of layers with others get their own.
inline constexpr const char* kUnquantized = "f32";

// For each site, the right sides of its rules by layer (one for a site outside the layers), "f32" for exact ones. Of a
// group (weights, linear_in), either all sites of the model are present or none.
std::string ShortRules(const std::map<Site, std::vector<std::string>>& sites);

struct PartLevel {
  std::string rule;  // the right side of its rule: "int4/token"
  int bits = 0;
  Plan plan;     // this level alone, everything else exact
  LevelCost of;  // bits x operands; the loss is set after it has run
};

struct SearchPart {
  std::string name;  // "q[l0]"
  Site site{};
  std::optional<int> layer;
  double operands = 0;            // per token (OperandsPerToken)
  std::vector<PartLevel> levels;  // the first is unquantized
};

// The sums of these levels, one of each part; losses below 0, which are noise, count as 0.
FrontierPoint PointAt(const std::vector<SearchPart>& parts, const std::vector<size_t>& levels);

// From least loss to least cost. Each part needs a level; losses count as in PointAt. Ties go to the earlier part.
std::vector<FrontierPoint> Frontier(const std::vector<SearchPart>& parts);

// The choice that loses least, and the cheaper of equal losses. Each part needs at least one level; losses count as in
// PointAt. Empty if the cheapest levels together cost more than the budget.
std::optional<FrontierPoint> LeastLossWithin(double budget, const std::vector<SearchPart>& parts);

// Parts by sites and layers. Throws Error for a plan that distinguishes heads or maps, or has fewer than two parts.
std::vector<SearchPart> SearchParts(const std::vector<Plan>& plans, const ModelConfig& config, int64_t window);

std::vector<std::string> SensitivityPlans(const std::vector<SearchPart>& parts);  // f32, and every level alone
// The level that a plan gives to each part; empty if it leaves a part unquantized.
std::vector<size_t> LevelsOf(const Plan& plan, const std::vector<SearchPart>& parts, const ModelConfig& config,
                             int64_t window);
// Sets each level's loss, the mean divergence, from the cells of these plans.
void SetLosses(const std::vector<SweepCell>& cells, std::vector<SearchPart>& parts);

// One level for each part, as a plan.
std::string PlanAt(const std::vector<SearchPart>& parts, const std::vector<size_t>& levels, const ModelConfig& config);

// The cost of a plan: every multiply-add takes two operands, and each costs its bits, regardless of reuse.
//
//   site                      operands per token
//   X.w, X.in                 in x out of the matrix
//   probs, difference, v      maps (difference: 1) x values of attention's output x keys; v for as many maps as the
//                             layer has
//   cache_k, cache_v          values of a token in the layer's cache x keys: what decoding reads
//   any other                 its values per token: no product uses them
//
// keys: the mean number of keys that a query sees in a window of W positions, (W + 1) / 2, or fewer with a sliding
// window. Unquantized values count 16 bits; scales count nothing.
//
// Or what a choice of weights takes in a file: codes, scales, zero points and minima, as tare inspect counts them; of a
// matrix that stays unquantized, its tensor as the checkpoint stores it.

inline constexpr int kUnquantizedBits = 16;

// For a site in a layer, or outside the layers.
double OperandsPerToken(Site site, std::optional<int> layer, const ModelConfig& config, int64_t window);

struct StoredBits {
  double weights = 0;  // values in the parts' matrices
  double others = 0;   // bits of every other tensor
};

// Makes stored bits the cost of every level, and weights a part's operands. Throws Error unless all parts are weights.
StoredBits CountStoredBits(const std::filesystem::path& model, const ModelConfig& config,
                           std::vector<SearchPart>& parts);

// A measured point of the frontier. The first task measures divergence.
struct VerifiedPoint {
  size_t step = 0;  // of the frontier
  std::string plan;
  std::vector<SweepCell> cells;     // one per task
  std::vector<Comparison> changes;  // from f32, of each cell's first figure
  double Loss() const { return changes.front().value; }
};

// The budget of the parts' matrices together, without all other tensors.
struct SearchBudget {
  double bits = 0;
  StoredBits stored;
};

struct Search {
  std::string model;
  double within = 0;                   // nats per token
  std::optional<SearchBudget> budget;  // instead of it
  std::vector<SearchPart> parts;
  std::vector<FrontierPoint> frontier;  // with a budget: the plan beside the choice, if there is one, and the choice
  std::vector<VerifiedPoint> verified;  // in the order of the frontier
  size_t answer = 0;                    // index in verified

  const VerifiedPoint& Answer() const { return verified[answer]; }
  double BitsAt(size_t step) const;  // mean bits of all parts' operands; with a budget, of their weights with scales
};

// Throws Error unless the smallest levels fit into the budget. Call it before anything runs.
void RequireRoom(const SearchBudget& budget, const std::vector<SearchPart>& parts);

// Points within a budget that has room: the largest of `uniform` (LevelsOf the given plans) that fits, and the choice.
std::vector<FrontierPoint> ChoicesWithin(const SearchBudget& budget, const std::vector<SearchPart>& parts,
                                         const std::vector<std::vector<size_t>>& uniform);

// With a budget, measures all points: the answer loses least. Else up to the point after the answer, which loses more
// than `within`, or to the last. Throws Error if the second point loses more: then only f32 is within.
void Verify(Search& search, const std::function<VerifiedPoint(size_t step)>& run);

// A point from its cells and the cells of f32, task by task.
VerifiedPoint PointOf(size_t step, const std::string& plan, const std::vector<SweepCell>& cells);

// A search as a table of at most 80 columns (except for the plan, which is one word) and for programs.
//
//   kld               bits  predicted  measured
//     step 41         8.02   9.93e-03  1.02e-02 [9.6e-03, 1.10e-02] beyond
//     step 40         8.11   9.71e-03  9.98e-03 [9.4e-03, 1.07e-02] the answer
//
//   bits by layer
//     o_proj.w          8  8  6  8
// Within a size, a row for the largest plan with one level for all parts that fits, and one for the choice.
std::string SearchTable(const Search& search);

// One row per step of the frontier: step, part, rule, bits, predicted; if it was measured, also measured, stderr, low,
// high, within, and the plan.
std::string SearchCsv(const Search& search);

// tare.search/1: {"schema", "model", "within", "level", "bits", "plan", "parts": [{"part", "operands", "levels":
// [{"rule", "bits", "kld"}]}], "frontier": [{"step", "part", "rule", "bits", "predicted"}], "verified": [{"step",
// "bits", "predicted", "plan", "tasks": [{"task", "figure", "value", "change"}]}]}. Within a size "within" is null,
// "budget" {"bits_per_weight" at most, "bytes" with all other tensors}, and levels have "bytes".
Json SearchJson(const Search& search);

}  // namespace tare
