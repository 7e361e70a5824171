// SPDX-License-Identifier: Apache-2.0
// Known schemas and settings, Reader (folders, HDF5 files and JSON), figures of a sweep, ForEach, and ReadMaterial.
#include "experiments/report/figures/figures.h"

#include "experiments/observe/statistics_report.h"
#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/file/mapped_file.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/file/sha256.h"
#include "quant/statistics/statistics_file.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSchemas[] = {
    "tare.stats/3",         "tare.sweep/2",   "tare.sweep/3",       "tare.compare/1", "tare.eval/1", "tare.bench/1",
    "tare.bench.forward/1", "tare.inspect/1", "tare.attribution/1", "tare.search/1",  "tare.maps/1", "tare.judge/1"};

constexpr const char* kCommands =
    "tare stats, sweep, compare, judge, eval, attribute, search, maps, bench or inspect (--json F or --out)";

// 0 stands for all, or for what the model has.
bool IsCount(const std::string& key) { return key == "tokens" || key == "limit" || key == "window" || key == "stride"; }

// The settings of a result: its plain values, without its figures.
void AddSettings(const Json& json, SourceFile& file) {
  static constexpr std::string_view kSettings[] = {
      "command", "model",    "weights",   "weights_sha256", "family", "parameters", "tokens", "positions",
      "plan",    "executed", "lookahead", "math",           "limit",  "from",       "window", "stride",
      "input",   "seed",     "draws",     "cache",          "by",     "within",     "version"};
  for (const auto& [key, value] : json.items()) {
    const bool known = std::ranges::contains(kSettings, key) && !(IsCount(key) && value == 0);
    if (known && value.is_primitive() && !value.is_null()) file.says.emplace_back(key, PlainText(value));
  }
  if (json.contains("machine")) {
    for (const auto& [key, value] : json["machine"].items()) file.says.emplace_back(key, PlainText(value));
  }
}

[[noreturn]] void RefuseSchema(const std::string& path, const std::string& schema) {
  Fail("{}: got the schema {}, expected statistics or a dump, or results of {}; try {}", path, schema, kCommands,
       IsQuantizedSchema(schema) ? Formatted("`tare sweep {} --source MODEL --out DIR` and DIR", path)
                                 : "its command again");
}

class Reader {
 public:
  void Read(const fs::path& path) {
    if (!fs::exists(path)) Fail("{}: got no such file or folder, expected one that tare wrote", path.string());
    if (fs::is_directory(path)) return ReadSweepFolder(path);
    if (!fs::is_regular_file(path))  // reading would wait for a writer
      Fail("{}: got a pipe or a device, expected a file or a folder; try saving it to a file first", path.string());
    if (std::ranges::contains(material_.files, path.string(), &SourceFile::path))
      Fail("{}: is given twice; try giving it once", path.string());
    if (Beginning(path, 8) == "\x89HDF\r\n\x1a\n") return ReadHdf5(path);
    ReadJsonText(MappedFile(path).text(), path.string());
  }

  // Documents lie in the order of their models, so that a model has the same colour in all figures.
  Material Take() {
    const auto place = [this](const Document& document) {
      const auto of = document.json.find("model");
      return of == document.json.end()
                 ? models_.size()
                 : static_cast<size_t>(std::ranges::find(models_, PlainText(*of)) - models_.begin());
    };
    std::ranges::stable_sort(material_.documents, {}, place);
    return std::move(material_);
  }

 private:
  void ReadSweepFolder(const fs::path& folder) {
    if (fs::exists(folder / "compare.json")) return Read(folder / "compare.json");
    if (fs::exists(folder / "table.json")) {
      const fs::path outliers = folder / "outliers.jsonl";  // of `tare compare`
      if (fs::exists(outliers)) ReadOutlierLines(outliers);
      return Read(folder / "table.json");
    }
    for (const char* result : {"attribution.json", "search.json"}) {
      if (fs::exists(folder / result)) return Read(folder / result);
    }
    if (fs::exists(folder / "cells.jsonl"))
      Fail(
          "{}: got runs of a command that is not finished; try its command (`tare sweep`, `compare`, `attribute` or "
          "`search`) with the same --out again; it resumes where it stopped",
          folder.string());
    Fail(
        "{}: got a folder without results, expected one that `tare sweep`, `compare`, `attribute` or `search` made "
        "with --out",
        folder.string());
  }

  void ReadOutlierLines(const fs::path& path) {
    RecordLines lines = ReadRecords(path, OutlierRecords());
    if (!lines.damaged.empty())
      Fail("{}; try tare compare with this --out again: it measures what was there", DamageText(lines));
    for (Record& record : lines.records) Add(std::move(record.object["figures"]), path.string());
  }

  void ReadHdf5(const fs::path& path) {
    const Hdf5Reader file(path);
    const std::string schema = file.HasAttribute("", "schema") ? file.StringAttribute("", "schema") : "none";
    if (schema == kStatisticsSchema) return ReadStatisticsFile(path);
    if (schema != "tare.dump/1") RefuseSchema(path.string(), schema);
    const auto attribute = [&](const char* key) { return file.StringAttribute("", key); };
    SourceFile& source = material_.files.emplace_back(path.string(), "tare.dump/1");
    for (const char* key : {"model", "weights_sha256", "plan", "carried", "math", "version", "input_sha256", "windows"})
      if (file.HasAttribute("", key)) source.says.emplace_back(key, attribute(key));
    KnowWeights(attribute("model"), attribute("weights_sha256"), path.string());
    material_.dumps.emplace_back(path, attribute("model"), attribute("plan"));
  }

  void ReadStatisticsFile(const fs::path& path) {
    StatisticsSet set = ReadStatistics(path);
    if (!set.Whole()) {
      const auto seen = static_cast<size_t>(std::ranges::count(set.units, 1));
      Fail(
          "{}: got {} of the {} parts of its job, expected all; try `tare stats merge` on this file and the other "
          "shards",
          path.string(), seen, set.units.size());
    }
    SourceFile& file = material_.files.emplace_back(path.string(), kStatisticsSchema);
    file.says.assign(set.job.begin(), set.job.end());
    file.says.emplace_back("tokens", Formatted("{}", set.tokens));
    const std::string model = set.job.at("model");
    if (std::ranges::contains(material_.statistics, model, &ModelStatistics::model))
      Fail("{}: got statistics of {}, which another file has too; try one file per model", path.string(), model);
    if (set.job.contains("weights_sha256")) KnowWeights(model, set.job.at("weights_sha256"), path.string());
    material_.statistics.emplace_back(model, std::move(set));
  }

  void ReadJsonText(std::string_view text, const std::string& path) {
    Json json = ParseOrderedJson(text, path);
    if (!json.is_array()) json = Json::array({std::move(json)});
    if (json.empty()) Fail("{}: got an empty list; try the command that made it again", path);
    for (Json& one : json) {
      try {
        Add(std::move(one), path);
      } catch (const Json::exception& error) {
        RefuseOdd(path, error);
      }
    }
  }

  void Add(Json json, const std::string& path) {
    const std::string schema =
        json.is_object() && json.contains("schema") && json["schema"].is_string() ? json["schema"] : Json("none");
    if (!std::ranges::contains(kSchemas, schema)) RefuseSchema(path, schema);
    if (schema == "tare.compare/1") {
      for (Json& outliers : json.at("outliers")) Add(std::move(outliers), path);
      if (json.contains("attribution")) {
        for (Json& model : json["attribution"].at("models")) Add(std::move(model), path);
      }
      return Add(std::move(json.at("sweep")), path);
    }
    SourceFile& file = material_.files.emplace_back(path, schema);
    AddSettings(json, file);
    if (json.contains("weights_sha256")) KnowWeights(json.at("model"), json.at("weights_sha256"), path);
    if (schema.starts_with("tare.sweep/") || schema == "tare.judge/1") return AddSweep(json, path, file);
    material_.documents.emplace_back(path, schema, std::move(json));
  }

  void AddSweep(const Json& json, const std::string& path, SourceFile& file) {
    const Json& cells = json.at("cells");
    if (cells.empty()) Fail("{}: got a sweep without a finished run; try `tare sweep` again", path);
    Sweep sweep{.path = path, .cells = {}, .comparisons = {}, .cuts = {}};
    std::map<std::string, std::string> models;
    for (const Json& cell : cells) {
      const Json& key = cell.at("key");
      if (key.contains("weights")) {  // of files that tare judge read it is not known
        models[key.at("model")] = key.at("weights");
        KnowWeights(key.at("model"), key.at("weights"), path);
      }
      sweep.cells.push_back(ReadCell(cell, path));
    }
    AddVersions(json.value("sizes", Json::array()), sweep.cells);
    sweep.comparisons = CompareCells(sweep.cells);
    sweep.comparisons.margin = json.value("margin", 0.0);
    for (const Json& spread : json.value("over_cuts", Json::array())) {
      CutModels group{spread.at("models"), spread.value("alike", "")};
      if (group.names.size() > 1 && !std::ranges::contains(sweep.cuts, group)) sweep.cuts.push_back(std::move(group));
    }
    material_.sweeps.push_back(std::move(sweep));
    for (const auto& [model, weights] : models) file.says.emplace_back(model, "weights " + weights);
    for (const char* setting : {"math", "limit", "from", "window", "stride", "tokens"}) {
      const Json& key = cells[0].at("key");
      if (key.contains(setting) && !(IsCount(setting) && key[setting] == 0))
        file.says.emplace_back(setting, PlainText(key[setting]));
    }
    if (cells[0].at("key").value("window", 1) == 0 && cells[0].at("result").contains("window"))
      file.says.emplace_back("window", PlainText(cells[0]["result"]["window"]) + ", the default of --window");
  }

  SweepCell ReadCell(const Json& cell, const std::string& path) {
    const std::string task = cell.at("task");
    const TaskKind* const kind = KindNamed(task);
    if (kind == nullptr) Fail("{}: got the task {}, which this version does not know", path, task);
    std::optional<Figures> figures = ReadFigures(cell.at("result"), *kind);
    if (!figures) Fail("{}: got a run of {} without its figures; try `tare sweep` again", path, task);
    const Plan plan = Plan::Parse(cell.at("key").at("plan").get<std::string>());
    return SweepCell{cell.at("model"), task, kind, RowOf(plan), cell.at("key"), cell.at("result"), *figures};
  }

  void KnowWeights(const std::string& model, const std::string& weights, const std::string& path) {
    if (!std::ranges::contains(models_, model)) models_.push_back(model);
    const auto [known, added] = weights_.try_emplace(model, weights, path);
    if (known->second.first == weights) return;
    Fail("{}: got weights {} of {}, but {} has {}; these are two models of one name: try a report for each", path,
         weights.substr(0, 12), model, known->second.second, known->second.first.substr(0, 12));
  }

  Material material_;
  std::vector<std::string> models_;                                     // in the order of the files
  std::map<std::string, std::pair<std::string, std::string>> weights_;  // by model: hash, and who said so first
};

}  // namespace

std::vector<SweepFigure> Sweep::Figures() const {
  std::vector<SweepFigure> figures = FiguresOf(cells, comparisons);
  std::erase_if(figures, [](const SweepFigure& figure) { return !figure.InTables(); });
  return figures;
}

void Material::ForEach(std::string_view schema, const std::function<void(const Json&)>& use) const {
  for (const Document& document : documents) {
    if (document.schema != schema) continue;
    try {
      use(document.json);
    } catch (const Json::exception& error) {
      RefuseOdd(document.path, error);
    }
  }
}

Material ReadMaterial(const std::vector<fs::path>& files) {
  Reader reader;
  for (const fs::path& path : files) reader.Read(path);
  return reader.Take();
}

}  // namespace tare
