// SPDX-License-Identifier: Apache-2.0
// The finished cells of a folder: a line each in DIR/cells.jsonl, with its own hash and the study that it is of. A
// folder is of one study: cells of a search in the table of a sweep would enter its corrections for many comparisons.
//
//   {"schema":"tare.cell/2","study":"sweep","key":{...},"result":{...},"sha256":"..."}
//
// And what is told from their keys: names for people, and whether two cells may stand in one table.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tasks/task.h"
#include "quant/file/json.h"
#include "quant/file/output_folder.h"

namespace tare {

// "novels-standard q=int4/token perplexity:heldout".
std::string CellText(const Json& key);

// What identifies a cell: its key, with the name of the convention by which texts are cut in the place of the sentences
// that describe it. Versions may describe it otherwise.
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

// Keys and results, in the order of the lines; damaged lines are left out, with a notice. Throws Error for a line that
// is no cell, or of another study.
std::vector<std::pair<Json, Json>> ReadCells(const std::filesystem::path& folder, const CellReader& reader);

// Finished cells of an earlier run, by their identities as text. A last line that was being written when the run ended
// is dropped, damaged lines are removed from the file, and their cells run again.
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

}  // namespace tare
