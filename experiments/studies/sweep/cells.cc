// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/cells.h"

#include <algorithm>
#include <initializer_list>

#include "experiments/passes/sequences.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/atomic_file.h"
#include "quant/file/files_of_run.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

bool IsOfModel(const std::string& name) {
  return name == "weights" || name == "stats" || std::ranges::contains(kModelFiles, name);
}

constexpr const char *kCellSchema = "tare.cell/2", *kOlderSchema = "tare.cell/1";

// Which part of a task's file a run takes, by which rules: of other tasks they may differ.
bool IsOfTask(const std::string& name) {
  static constexpr std::string_view kNames[] = {"input", "limit", "from", "window", "stride", "tokens", "convention"};
  return std::ranges::contains(kNames, name);
}

bool HasTexts(const Json& object, std::initializer_list<const char*> keys) {
  return std::ranges::all_of(keys, [&](const char* key) { return object.contains(key) && object[key].is_string(); });
}

// The file may be edited or another program's. Cells of these tasks must have the figures; others are left alone.
bool IsCell(const Json& line, const std::vector<TaskSpec>& tasks) {
  if (!line.contains("key") || !line.contains("result") || !HasTexts(line["key"], {"plan", "task"})) return false;
  const auto task = std::ranges::find(tasks, line["key"]["task"].get<std::string>(), &TaskSpec::Name);
  return task == tasks.end() || ReadFigures(line["result"], *task->kind);
}

// Those of an earlier version do not say their study.
RecordLines ReadCellLines(const std::filesystem::path& file, const CellReader& reader) {
  const RecordKind kind{
      .schema = kCellSchema,
      .what = "a finished run",
      .is_record = [&](const Json& line) { return HasTexts(line, {"study"}) && IsCell(line, reader.tasks); },
      .is_older =
          [&](const Json& line) {
            return HasTexts(line, {"schema"}) && line["schema"] == kOlderSchema && !line.contains("study") &&
                   IsCell(line, reader.tasks);
          }};
  RecordLines lines = ReadRecords(file, kind);
  for (const Record& record : lines.records) {
    const std::string study = record.object.value("study", reader.study);
    if (study != reader.study)
      Fail("{}: got the runs of `tare {}`, expected those of `tare {}`; try another folder", file.string(), study,
           reader.study);
  }
  if (!lines.damaged.empty()) Notice(DamageText(lines) + "; what was there counts as not run");
  return lines;
}

// Behind all layers.
bool IsOutput(Site site) { return site == Site::kFinalNorm || site == Site::kLmHeadW || site == Site::kLmHeadIn; }

// Whether the rule may say something of the embedding or of a layer before this one.
bool ReachesBefore(const Rule& rule, int layer) {
  if (std::ranges::all_of(rule.sites, IsOutput)) return false;
  return rule.selector.layers.empty() || rule.selector.layers.front().first < layer;
}

// What a plan says of all that comes before the layer. Other texts may say the same; the same text says the same.
std::string TextBefore(const Plan& plan, int layer) {
  std::string text;
  for (const Rule& rule : plan.rules()) {
    if (ReachesBefore(rule, layer)) text += rule.text + "\n";
  }
  return text;
}

}  // namespace

std::string CellText(const Json& key) {
  return Formatted("{} {} {}", key.value("model", ""), key.value("plan", ""), key.value("task", ""));
}

Json IdentityOf(Json key) {
  if (const auto convention = key.find("convention"); convention != key.end())
    *convention = convention->is_object() ? (*convention)["name"] : Json(InfoOf(Convention::kTare).name);
  return key;
}

std::string IdentityText(const Json& key) { return JsonText(IdentityOf(key)); }

std::string Clash(const Json& key_a, const Json& key_b) {
  const Json a = IdentityOf(key_a), b = IdentityOf(key_b);
  const bool same_model = a["model"] == b["model"], same_task = a["task"] == b["task"];
  for (const auto& [name, value] : a.items()) {
    if (name == "model" || name == "task" || name == "plan" || name == "executed") continue;
    if ((IsOfTask(name) && !same_task) || (IsOfModel(name) && !same_model)) continue;
    if (b.contains(name) && b[name] != value) return name;
  }
  if (same_task && a.contains("from") != b.contains("from")) return "part of the input";  // older ones took its start
  if (same_task && a.contains("windows_begin") != b.contains("windows_begin")) return "windows of a long text";
  const bool same_row =
      same_model && same_task && a["plan"] == b["plan"] && a.contains("executed") == b.contains("executed");
  return same_row && a != b ? "set of files" : "";
}

std::vector<std::pair<Json, Json>> ReadCells(const std::filesystem::path& folder, const CellReader& reader) {
  std::vector<std::pair<Json, Json>> cells;
  for (const Record& record : ReadCellLines(folder / "cells.jsonl", reader).records)
    cells.emplace_back(record.object["key"], record.object["result"]);
  return cells;
}

CellLog::CellLog(const std::filesystem::path& folder, const CellReader& reader)
    : folder_(folder), path_(folder / "cells.jsonl"), study_(reader.study) {
  TakeForOwn(path_);
  const RecordLines lines = ReadCellLines(path_, reader);
  std::string whole;
  for (const Record& record : lines.records) {
    Keep(record.object["key"], record.object["result"]);
    whole += record.line + "\n";
  }
  if (!lines.damaged.empty()) WriteFileAtomically(path_, whole);
  NoteRuns();
}

const Json* CellLog::Find(const Json& key) const { return FindIn(results_, IdentityText(key)); }

void CellLog::Append(const Json& key, const Json& result) {
  AppendLine(path_, CheckedLine({{"schema", kCellSchema}, {"study", study_}, {"key", key}, {"result", result}}));
  Keep(key, result);
  NoteRuns();
}

void CellLog::NoteRuns() const {
  if (!keys_.empty())
    NoteKept(Formatted("{} keeps {}", path_.parent_path().string(), Counted(std::ssize(keys_), "finished run")));
}

void CellLog::Keep(const Json& key, const Json& result) {
  if (results_.insert_or_assign(IdentityText(key), result).second) keys_.push_back(key);
}

SharedLayers::SharedLayers(const std::vector<SharingRun>& runs, int layers) : runs_(runs), layers_(layers) {
  std::map<std::string, int> numbers;
  for (const SharingRun& run : runs) {
    std::vector<int>& names = names_.emplace_back();
    for (int layer = 0; layer <= layers; ++layer)
      names.push_back(
          numbers.try_emplace(TextBefore(*run.plan, layer), static_cast<int>(numbers.size())).first->second);
  }
  for (size_t run = 0; run < runs.size(); ++run) {
    int& before = before_.emplace_back(0);
    for (size_t earlier = 0; earlier < run; ++earlier) {
      for (int layer = layers; layer > before; --layer) {
        if (Share(earlier, run, layer)) before = layer;
      }
    }
  }
}

KeptStreams::Run SharedLayers::Of(size_t run, int64_t most) const {
  KeptStreams::Run all{.names = names_[run], .kept = {}, .expected = {}};
  std::set<int> wanted;
  for (size_t later = run; later < runs_.size(); ++later) {
    if (runs_[later].task != runs_[run].task) continue;
    for (int layer = 1; layer <= layers_; ++layer)
      all.expected.insert({layer, names_[later][static_cast<size_t>(layer)]});
    // What this run shares with an earlier one, that one has kept.
    const int from = before_[later];
    if (later > run && from > before_[run] && Share(run, later, from)) wanted.insert(from);
  }
  const std::vector<int> layers(wanted.begin(), wanted.end());
  const size_t n = layers.size(), count = std::min(n, static_cast<size_t>(std::max<int64_t>(most, 0)));
  for (size_t i = 0; i < count; ++i) all.kept.insert(layers[(2 * i + 1) * n / (2 * count)]);
  return all;
}

}  // namespace tare
