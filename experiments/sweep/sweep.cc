// SPDX-License-Identifier: Apache-2.0
#include "experiments/sweep/sweep.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <sstream>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_file.h"
#include "quant/file/checkpoint.h"
#include "quant/file/sha256.h"
#include "quant/file/strict_json.h"
#include "quant/plan/plan.h"
#include "quant/plan/site_class.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "tare.cell/1";

bool AreStrings(const Json& object, std::initializer_list<const char*> keys) {
  return std::ranges::all_of(keys, [&](const char* key) { return object.contains(key) && object[key].is_string(); });
}

// Whether a line is of a cell: the file may have been edited, or be another program's. Of these tasks' cells the figures
// must be there, those of other tasks are left in peace.
bool IsCell(const Json& line, const std::vector<TaskSpec>& tasks) {
  if (!line.is_object() || !AreStrings(line, {"schema"}) || line["schema"] != kSchema) return false;
  if (!line.contains("key") || !line.contains("result") || !AreStrings(line["key"], {"plan", "task"})) return false;
  const auto task = std::ranges::find(tasks, line["key"]["task"].get<std::string>(), &TaskSpec::Name);
  return task == tasks.end() || ReadFigures(line["result"], *task->kind);
}

// Null where it is no JSON, or such as no writer of ours makes.
Json ParseLine(const std::string& text) {
  try {
    return ParseOrderedJson(text, "");
  } catch (const Error&) {
    return {};
  }
}

// Finished cells of an earlier run, by their keys as text. A last line that was being written when the run ended is
// dropped, and its cell runs again.
class CellLog {
 public:
  CellLog(const std::filesystem::path& folder, const std::vector<TaskSpec>& tasks) : path_(folder / "cells.jsonl") {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder)) Fail("{}: cannot be made a folder; try another --out", folder.string());
    Read(tasks);
  }

  const Json* Find(const Json& key) const {
    const auto found = results_.find(key.dump());
    return found == results_.end() ? nullptr : &found->second;
  }
  void Append(const Json& key, const Json& result) {
    AppendLine(path_, Json{{"schema", kSchema}, {"key", key}, {"result", result}}.dump());
    results_[key.dump()] = result;
  }

 private:
  void Read(const std::vector<TaskSpec>& tasks) {
    size_t number = 1;
    for (const std::string& text : ReadLines(path_)) {
      const Json line = ParseLine(text);
      if (!IsCell(line, tasks)) {
        Fail("{}: line {}: not a finished cell of a sweep; try another --out, or remove the line", path_.string(),
             number);
      }
      results_[line["key"].dump()] = line["result"];
      ++number;
    }
  }

  std::filesystem::path path_;
  std::map<std::string, Json> results_;
};

// A model's static scales: nothing where the sweep has none.
struct Seen {
  StaticSource source;
  std::string sha256;  // of the file
};

Json KeyOf(const Model& model, const std::string& weights_hash, const Plan& plan, const Seen& seen, const Task& task,
           const SweepOptions& options) {
  Json key{{"model", model.Name()},         {"weights", weights_hash},
           {"plan", plan.canonical()},      {"task", task.spec.Name()},
           {"input", task.sha256},          {"math", options.math == Math::kBf16 ? "bf16" : "f32"},
           {"limit", options.windows.limit}};
  if (options.carrying == Carrying::kExecuted) key["executed"] = true;
  if (plan.HasStaticScales()) key["stats"] = seen.sha256;
  for (const char* name : {"config.json", "tokenizer.model", "tokenizer_config.json"}) {
    if (std::filesystem::exists(model.folder() / name)) key[name] = Sha256OfFile(model.folder() / name);
  }
  if (const auto convention = task.spec.kind->convention) key.update(convention(options.windows));
  return key;
}

template <typename T>
void RequireDistinct(const std::vector<T>& values, const char* option) {
  std::set<T> seen;
  for (const T& value : values) {
    if (!seen.insert(value).second) Fail("{}: got {} twice, expected each once", option, value);
  }
}

// Of every model, in their order.
std::vector<Seen> ReadSeen(const SweepOptions& options) {
  std::vector<Seen> seen(options.models.size());
  if (options.statistics.empty()) return seen;
  if (options.statistics.size() != options.models.size())
    Fail("--stats: got {} files, expected one per model, in the order of the {} models; try --stats once for each",
         options.statistics.size(), options.models.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    const std::filesystem::path& file = options.statistics[i];
    seen[i] = {StaticSourceOf(file, Checkpoint(options.models[i])), Sha256OfFile(file)};
  }
  return seen;
}

// Whatever can be refused before hours of work; returns what the models' statistics files hold.
std::vector<Seen> CheckOptions(const SweepOptions& options) {
  if (options.site.empty()) Fail("--site: got '', expected a site; try attn_logits");
  RequireDistinct(options.bits, "--bits");
  RequireDistinct(options.granularities, "--granularity");
  std::vector<Seen> seen = ReadSeen(options);
  std::set<std::string> names;
  for (size_t i = 0; i < options.models.size(); ++i) {
    const std::filesystem::path& folder = options.models[i];
    const ModelConfig config = LoadConfig(folder);
    if (!names.insert(ModelName(folder)).second)
      Fail("got the model name {} twice, expected each once; try renaming a folder", ModelName(folder));
    for (const std::string& granularity : options.granularities) {
      for (const int bits : options.bits)
        PlanRun(Plan::Parse(PlanFor(options, bits, granularity)), options.carrying, ModelSitesOf(config),
                seen[i].source);
    }
  }
  return seen;
}

}  // namespace

std::string PlanFor(const SweepOptions& options, int bits, const std::string& granularity) {
  if (bits == 16) return "f32";
  std::string plan = options.base;
  std::stringstream sites(options.site);
  for (std::string site; std::getline(sites, site, ',');) {
    const std::span<const Site> named = ExpandSites(site);
    const std::optional<Format> format = ClassOf(named.empty() ? Site::kAttnLogits : named.front()).OfBits(bits);
    if (!format) Fail("--bits: got {}, expected 16 (not quantized), 8, 6 or 4", bits);
    plan += Formatted("{}{}={}/{}", plan.empty() ? "" : ",", site, Info(*format).name, granularity);
  }
  return plan;
}

std::vector<SweepCell> RunSweep(const SweepOptions& options, const CellStarting& starting) {
  const std::vector<Seen> seen = CheckOptions(options);
  CellLog log(options.folder, options.tasks);
  const size_t cells =
      options.models.size() * options.tasks.size() * options.granularities.size() * options.bits.size();
  std::vector<SweepCell> finished;
  for (size_t i = 0; i < options.models.size(); ++i) {
    Model model(options.models[i], options.math);
    const std::string weights_hash = model.files().ContentHash();
    for (const Task& task : ReadTasks(options.tasks, model, options.windows)) {
      for (const std::string& granularity : options.granularities) {
        for (const int bits : options.bits) {
          PlanRun run(Plan::Parse(PlanFor(options, bits, granularity)), options.carrying, ModelSitesOf(model),
                      seen[i].source);
          const Json key = KeyOf(model, weights_hash, run.plan(), seen[i], task, options);
          const std::string what =
              Formatted("{} {} {} bits {}", model.Name(), task.spec.Name(), bits, bits == 16 ? "" : granularity);
          const Progress progress = starting(finished.size() + 1, cells, what);
          if (log.Find(key) == nullptr) log.Append(key, task.run(model, run, progress).figures);
          const Json& result = *log.Find(key);
          finished.push_back({model.Name(), granularity, task.spec.Name(), bits, key, result,
                              ReadFigures(result, *task.spec.kind).value()});
        }
      }
    }
  }
  return finished;
}

}  // namespace tare
