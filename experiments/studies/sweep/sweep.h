// SPDX-License-Identifier: Apache-2.0
// Accuracy against bits: models x tasks x plans, one cell at a time. A finished cell is one JSON line in
// DIR/cells.jsonl (cells.h); a sweep that is started again with the same folder reads them, runs the missing cells,
// and gives the same table. A cell is identified by everything that its figures depend on: hashes of weights, config,
// tokenizer and input, plan (and of the statistics file, where a rule is +static), windows, math.
//
// Cells are independent, so many machines may share a sweep: each runs some of the list's numbers into its own folder,
// and one sweep with the same options merges all folders.
//
// A text's perplexity and its divergence under the same plan follow from the same passes, so their cells run together.
// Layers before the first in which plans differ run once for them (cells.h).
//
// Several sweeps may share a folder, for example one per site: a cell that one has finished (such as 16 bits of a
// model) does not run again, and tables show all comparable cells.
#pragma once

#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tasks/task.h"
#include "quant/file/json.h"
#include "quant/plan/plan.h"

namespace tare {

// The plans of a sweep: sites x granularity x bits, with all sites in one plan or each in its own, or given as plans;
// and a plan's name in a table row.

enum class SweepSites { kTogether, kEach };

struct SweepQuestion {
  std::string site = "attn_logits";          // or several, separated by commas
  SweepSites sites = SweepSites::kTogether;  // kEach: one after another; a group stands for each of its sites
  std::set<Site> lacking;                    // sites that such a group leaves out
  std::string base;                          // rules added to every quantized cell
  std::vector<int> bits{16, 8, 6, 4};        // 16: not quantized
  std::vector<std::string> formats;          // if not empty, used instead of bits: f32, int4, mxfp4
  std::vector<std::string> granularities{"row"};
  std::vector<std::string> plans;  // if not empty, used instead of all these
};

// Each plan once, in the order of the question: "f32" for 16 bits, else "attn_logits=int6/row" after the base's rules,
// one rule per site. Among several sites, one without the granularity (q has no row) uses its nearest, the finer of
// two, and a notice says so. Throws Error for an empty or repeated entry, and for other numbers of bits than 16, 8, 6
// and 4, and of weights, k and v 3 and 2.
std::vector<Plan> PlansOf(const SweepQuestion& question);

// "q,k", "int4", "token" of the rules that quantize; empty for "f32", which has 16 bits. Bits are those of the last
// rule. A scale looks ahead if it may span later tokens than the query, which a model in use does not know yet.
struct PlanRow {
  std::string site, format, granularity;
  int bits = 16;
  bool looks_ahead = false;
  bool exact = true;  // 16 bits, and nothing else that changes the model, as f32+sink does
};
PlanRow RowOf(const Plan& plan);

struct SweepOptions {
  std::vector<std::filesystem::path> models;
  // If not empty, the first of the models, of which the others are versions that some tool quantized: changes from 16
  // bits and divergences are from this one, instead of from each model's own. It runs as stored alone.
  std::filesystem::path source;
  // For rules with +static: one file per model but the source, in their order; or none.
  std::vector<std::filesystem::path> statistics;
  SweepQuestion question;
  Carrying carrying = Carrying::kSimulated;
  std::vector<TaskSpec> tasks;
  WindowOptions windows;
  AnswerOptions answers = {};
  std::optional<CachePlan> cache;  // for every cell; its plan's rules for caches are added
  Math math = Math::kF32;
  double margin = 0;  // within which changes may be equivalent (comparison.h); 0: not asked
  std::filesystem::path folder;
  std::string study = "sweep";                    // the command whose cells these are; a folder has those of one
  bool says_earlier = true;                       // that runs of an earlier command are taken up
  std::optional<std::pair<size_t, size_t>> only;  // the first and last cell to run, numbered as in ListCells
};

// All cells of the options, in order, each on one line: "novels-standard f32 perplexity:heldout". Line breaks in names
// become spaces.
std::vector<std::string> ListCells(const SweepOptions& options);

// A version of a sweep's source as it is stored.
struct StoredVersion {
  double bits_per_weight = 0, megabytes = 0;  // of all tensors
  std::string plan, method;                   // "": not quantized, or by another program
  std::string calibration;                    // what the method saw; "": nothing
  double quantized_bits = 0;                  // per weight of its quantized matrices; 0: not known, or none

  // Bits per weight, to 0.01, at which versions are compared.
  double Bits() const { return std::round(100 * (quantized_bits > 0 ? quantized_bits : bits_per_weight)) / 100; }
};

struct SweepCell {
  std::string model, task;
  const TaskKind* kind = nullptr;
  PlanRow row;  // from the key's plan
  Json key, result;
  Figures figures;  // from the result
  std::optional<StoredVersion> version = {};

  std::string Plan() const { return key.at("plan"); }
  bool Executed() const { return key.contains("executed"); }
  std::string Source() const { return key.value("source", std::string()); }  // the model's name; "": none
  // A version without a plan of its own.
  bool AsStored() const { return !Source().empty() && model != Source() && Plan() == "f32"; }
  std::string ShownPlan() const;  // "as stored", or the plan that such a version was quantized by
  bool SawInput() const;          // whether the version was calibrated on the task's file
};

// Tells the cells what is known of their versions: rows of {"model", "bits_per_weight", "megabytes", ..}.
void AddVersions(const Json& sizes, std::vector<SweepCell>& cells);

// Called before each cell runs, with its name and how many runs come after it. Not called for finished cells, and once
// for two cells that follow from the same passes.
using CellStarting = std::function<Progress(const std::string& what, int64_t runs_after)>;

// The cells that were asked for, in their order: models, tasks, plans; then others of the folder whose settings (limit,
// windows, math, and of the same names the same weights and inputs) are the same. Those with other settings are
// ignored, and a notice lists them. Throws Error where the folder cannot be written, or is of another study.
std::vector<SweepCell> RunSweep(const SweepOptions& options, const CellStarting& starting);

// Copies finished cells of other folders into this one, in the order of the list. Then nothing is left to run, and the
// folder has the bytes that one machine would have written. Throws Error, before writing anything, for a cell of
// another sweep, for a cell that differs between folders, and, with their numbers, for missing cells.
void MergeSweep(const SweepOptions& options, const std::vector<std::filesystem::path>& parts);

}  // namespace tare
