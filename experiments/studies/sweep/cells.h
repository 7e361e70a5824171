// SPDX-License-Identifier: Apache-2.0
// What a sweep need not run again: finished cells, and layers that runs share. The cells of a folder are a line each in
// DIR/cells.jsonl, with its own hash and the study that it is of. A folder is of one study: cells of a search in the
// table of a sweep would enter its corrections for many comparisons.
//
//   {"schema":"tare.cell/2","study":"sweep","key":{...},"result":{...},"sha256":"..."}
//
// And what is told from their keys: names for people, and whether two cells may stand in one table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/model/batch.h"
#include "experiments/tasks/task.h"
#include "quant/file/json.h"
#include "quant/file/output_folder.h"

namespace tare {

std::string CellText(const Json& key);  // "novels-standard q=int4/token perplexity:heldout"

// A cell's identity: its key, with the convention of cutting texts by name, as versions may describe it otherwise.
Json IdentityOf(Json key);
// IdentityOf as text, for maps and sets: equal for the same cell.
std::string IdentityText(const Json& key);

// The setting in which two cells differ, so that one table cannot hold both; "" if it can.
std::string Clash(const Json& a, const Json& b);

// What reads cells: its name, and its tasks, whose figures must be there.
struct CellReader {
  std::string study;
  const std::vector<TaskSpec>& tasks;
};

// Keys and results by line; damaged ones are left out, with a notice. Throws Error for no cell, or another study's.
std::vector<std::pair<Json, Json>> ReadCells(const std::filesystem::path& folder, const CellReader& reader);

// An earlier run's cells by identity. An unfinished last line is dropped, damaged lines are removed; both rerun.
class CellLog {
 public:
  CellLog(const std::filesystem::path& folder, const CellReader& reader);

  const Json* Find(const Json& key) const;  // the result, or null
  void Append(const Json& key, const Json& result);
  const std::filesystem::path& path() const { return path_; }
  // In the order of the file.
  const std::vector<Json>& keys() const { return keys_; }

 private:
  void NoteRuns() const;  // for a run that is interrupted
  void Keep(const Json& key, const Json& result);

  OutputFolder folder_;  // held: two sweeps at once would both run what both do not find
  std::filesystem::path path_;
  std::string study_;
  std::vector<Json> keys_;
  std::map<std::string, Json> results_;
};

// Which layers the runs of a sweep need not repeat. Rules that select layers from l on leave the layers before l as
// they are, so each run goes on where its plan first differs from that of an earlier run of the same task
// (experiments/model/batch.h). Of `tare attribute --by layer` each part alone goes on from f32, and the plan
// without it from the whole plan: of L layers (L - 1) / (2 L + 2) are not repeated, 30 % of 4 and 47 % of 32.
struct SharingRun {
  const Task* task = nullptr;
  const Plan* plan = nullptr;
};

class SharedLayers {
 public:
  // In the order in which they run, on one model with so many layers. The plans are carried out alike.
  SharedLayers(const std::vector<SharingRun>& runs, int layers);

  // Layers before the first in which the run differs from all earlier runs of its task; 0 for the first run.
  int Before(size_t run) const { return before_[run]; }
  // What the run keeps for later ones: streams before at most `most` layers, evenly spaced if they start from more.
  KeptStreams::Run Of(size_t run, int64_t most) const;

 private:
  bool Share(size_t a, size_t b, int layer) const {
    return runs_[a].task == runs_[b].task &&
           names_[a][static_cast<size_t>(layer)] == names_[b][static_cast<size_t>(layer)];
  }

  std::vector<SharingRun> runs_;
  int layers_;
  std::vector<std::vector<int>> names_;  // by run and layer, of the stream before it
  std::vector<int> before_;
};

}  // namespace tare
