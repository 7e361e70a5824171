// SPDX-License-Identifier: Apache-2.0
#include "experiments/sweep/sweep.h"

#include <format>
#include <map>

#include "quant/base/error.h"
#include "quant/file/atomic_file.h"
#include "quant/format/plan.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "tare.cell/1";

// Finished cells of an earlier run, by their keys as text. A last line that was being written when the run ended is
// dropped, and its cell runs again.
class CellLog {
 public:
  explicit CellLog(const std::filesystem::path& folder) : path_(folder / "cells.jsonl") {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder)) Fail("{}: cannot be made a folder; try another --out", folder.string());
    Read();
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
  void Read() {
    size_t number = 1;
    for (const std::string& text : ReadLines(path_)) {
      const Json line = Json::parse(text, nullptr, false);
      if (!line.is_object() || line.value("schema", "") != kSchema || !line.contains("key") ||
          !line.contains("result")) {
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

Json KeyOf(const Model& model, const std::string& weights_hash, const Plan& plan, const Task& task,
           const SweepOptions& options) {
  Json key{{"model", model.Name()},         {"weights", weights_hash},
           {"plan", plan.canonical()},      {"task", task.spec().Name()},
           {"input", task.sha256()},        {"math", options.math == Math::kBf16 ? "bf16" : "f32"},
           {"limit", options.windows.limit}};
  if (task.spec().kind == TaskSpec::Kind::kPerplexity) key.update(Convention(options.windows));
  return key;
}

}  // namespace

std::string PlanFor(const std::string& site, int bits, const std::string& granularity) {
  if (bits == 16) return "f32";
  if (bits != 8 && bits != 6 && bits != 4) Fail("--bits: got {}, expected 16 (not quantized), 8, 6 or 4", bits);
  return std::format("{}=int{}/{}", site, bits, granularity);
}

std::vector<SweepCell> RunSweep(const SweepOptions& options, const CellStarting& starting) {
  for (const std::string& granularity : options.granularities) {
    for (const int bits : options.bits) Plan::Parse(PlanFor(options.site, bits, granularity));  // before any work
  }
  CellLog log(options.folder);
  const size_t cells =
      options.models.size() * options.tasks.size() * options.granularities.size() * options.bits.size();
  std::vector<SweepCell> finished;
  for (const std::filesystem::path& folder : options.models) {
    Model model(folder, options.math);
    const std::string weights_hash = model.files().ContentHash();
    for (const TaskSpec& spec : options.tasks) {
      const Task task(spec, model, options.windows);
      for (const std::string& granularity : options.granularities) {
        for (const int bits : options.bits) {
          SimulatedQuantizer quantizer(Plan::Parse(PlanFor(options.site, bits, granularity)), model.config());
          const Json key = KeyOf(model, weights_hash, quantizer.plan(), task, options);
          const std::string what =
              std::format("{} {} {} bits {}", model.Name(), spec.Name(), bits, bits == 16 ? "" : granularity);
          const Progress progress = starting(finished.size() + 1, cells, what);
          if (log.Find(key) == nullptr) log.Append(key, ToJson(task.Run(model, quantizer, progress)));
          finished.push_back({model.Name(), granularity, spec.Name(), bits, key, *log.Find(key)});
        }
      }
    }
  }
  return finished;
}

}  // namespace tare
