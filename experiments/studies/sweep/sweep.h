// SPDX-License-Identifier: Apache-2.0
// Accuracy against bits: models x tasks x plans, cell by cell. A finished cell is a line of DIR/cells.jsonl (cells.h);
// a sweep started again there runs the missing ones and gives the same table. A cell is identified by all its figures
// depend on: hashes of weights, config, tokenizer, input, plan (and statistics for +static), windows, math.
//
// Machines may share a sweep: each runs some cells into its own folder; one sweep with the same options merges them.
//
// A text's perplexity and its divergence under the same plan follow from the same passes, so their cells run together.
// Layers before the first in which plans differ run once for them (cells.h).
//
// Sweeps, such as one per site, may share a folder: finished cells do not run again, tables show all comparable ones.
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

// A sweep's plans: sites x granularity x bits, all sites in one or each in its own, or given; and names in table rows.

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

// Each plan once, in order: "f32" for 16 bits, else "attn_logits=int6/row" after the base's rules, one rule per site. A
// site without the granularity (q has no row) uses its nearest, the finer of two, with a notice. Throws Error for empty
// or repeated entries, and bits other than 16, 8, 6, 4, and for weights, k and v 3 and 2.
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

// All cells in order, a line each: "novels-standard f32 perplexity:heldout". Line breaks in names become spaces.
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

// Called before each unfinished cell, once for two from the same passes, with its name and how many runs follow.
using CellStarting = std::function<Progress(const std::string& what, int64_t runs_after)>;

// The cells that were asked for, in their order: models, tasks, plans; then others of the folder whose settings (limit,
// windows, math, and of the same names the same weights and inputs) are the same. Those with other settings are
// ignored, and a notice lists them. Throws Error where the folder cannot be written, or is of another study.
std::vector<SweepCell> RunSweep(const SweepOptions& options, const CellStarting& starting);

// Copies other folders' finished cells here in the list's order: the bytes are those of one machine's run. Throws
// Error, before writing, for another sweep's cells, cells that differ, and, with their numbers, missing ones.
void MergeSweep(const SweepOptions& options, const std::vector<std::filesystem::path>& parts);

}  // namespace tare
