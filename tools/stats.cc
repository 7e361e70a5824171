// SPDX-License-Identifier: Apache-2.0
// tare stats: the outliers of a model's attention logits and hidden states, several models side by side; with --out,
// statistics of every site into a file. show, merge and diff work on such files (tools/stats_files.cc).
#include <memory>

#include "experiments/model/config/config.h"
#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/observe/measured.h"
#include "experiments/observe/outlier_report.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/passes/model_input.h"
#include "experiments/passes/sequences.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json_value.h"
#include "quant/plan/plan.h"
#include "tools/files.h"
#include "tools/help.h"
#include "tools/run_options.h"
#include "tools/stats_files.h"

namespace tare {
namespace {

struct StatsArguments {
  std::vector<std::string> models;
  std::vector<std::string> tensors;
  std::string input, spans, json, csv, out, shard = "0/1", axes, name;
  StatisticsOptions statistics;
  WindowOptions windows;
  MachineOptions machine;
};

// Records what the table was made from.
void AddOrigin(Json& json, const Model& model, const TokenInput& input, uint64_t positions, size_t sequences,
               const StatsArguments& options) {
  json["positions"] = positions;
  json["sequences"] = sequences;
  json["window"] = options.windows.window;
  json["math"] = options.machine.math;
  json["weights_sha256"] = model.files().ContentHash();
  json["input_sha256"] = input.sha256;
  if (input.in_windows) json["windows_begin"] = "lines";
}

bool IsItems(const StatsArguments& options) { return std::filesystem::path(options.input).extension() == ".jsonl"; }

MarkedItems LoadInput(Model& model, const StatsArguments& options) {
  const ModelConfig& config = model.config();
  if (IsItems(options))
    return LoadMarkedItems(options.input, model.folder(), config, static_cast<size_t>(options.windows.limit),
                           options.windows.from);
  MarkedItems loaded{
      .input = LoadModelInput(options.input, model, options.windows.NeededOf(config)), .sequences = {}, .spans = {}};
  loaded.sequences = CutDisjoint(loaded.input, config, options.windows);
  if (options.spans.empty()) return loaded;
  std::vector<int64_t> lengths;
  for (const ScoredSequence& s : loaded.sequences) lengths.push_back(std::ssize(s.tokens));
  loaded.spans = MarkedSpans::Load(options.spans, lengths);
  return loaded;
}

Json Observe(const std::string& folder, const StatsArguments& options, ProgressLine& line) {
  Model model(folder, options.machine.Apply());
  const auto [input, sequences, spans] = LoadInput(model, options);
  Json json = MeasureOutliers(model, input, sequences, options.statistics.skip_first, line.Callback());
  const int64_t positions = json["tokens"].get<int64_t>() + (input.bos ? std::ssize(sequences) : 0);
  AddOrigin(json, model, input, static_cast<uint64_t>(positions), sequences.size(), options);
  return json;
}

// Writes every site to the file, and takes the table's figures from it.
Json Collect(const std::string& folder, const StatsArguments& options, ProgressLine& line) {
  Model model(folder, options.machine.Apply());
  const auto [input, sequences, spans] = LoadInput(model, options);
  StatisticsOptions statistics = options.statistics;
  statistics.spans = spans;
  const StatisticsSet set =
      CollectStatistics(model, input, sequences, statistics, TARE_VERSION, options.out, line.Callback());
  Json json = OutlierJson(set, model.config(), model.Name(), static_cast<int64_t>(set.tokens));
  AddOrigin(json, model, input, set.positions, sequences.size(), options);
  json["statistics"] = options.out;
  return json;
}

void SayWhatIsLeftOut(const std::vector<std::string>& names) {
  if (names.empty()) return;
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += Formatted(" and {} more", names.size() - kShown);
  Notice("skipped, no matching site: " + text);
}

// Of arrays that another program captured.
void CollectTensors(StatsArguments& options) {
  std::vector<std::string> inputs = options.tensors;
  inputs.insert(inputs.end(), {options.axes, options.spans});
  const std::vector<AtomicFile> claims = ClaimFiles(inputs, {options.json, options.out, options.out + ".part"});
  const CapturedLayout layout = options.axes.empty() ? CapturedLayout() : CapturedLayout::Load(options.axes);
  const CapturedInput input = LoadCaptured({options.tensors.begin(), options.tensors.end()}, layout);
  SayWhatIsLeftOut(input.left_over);
  if (!options.spans.empty()) options.statistics.spans = MarkedSpans::Load(options.spans, input.lengths);
  const std::string name =
      options.name.empty() ? std::filesystem::path(options.tensors.front()).stem().string() : options.name;
  const auto set = [&] {
    ProgressLine line(name);
    return CollectCaptured(input, name, options.statistics, TARE_VERSION, options.out, line.Callback());
  }();
  ShowOverview(set, options.out, options.json);
}

void Run(StatsArguments& options) {
  options.statistics.shard = ParseShard("--shard", options.shard);
  if (!options.tensors.empty()) {
    options.machine.Apply();
    return CollectTensors(options);
  }
  std::vector<std::string> inputs = options.models;
  inputs.insert(inputs.end(), {options.input, options.spans});
  const std::vector<AtomicFile> claims =
      ClaimFiles(inputs, {options.json, options.csv, options.out, options.out.empty() ? "" : options.out + ".part"});
  for (const std::string& folder : options.models) LoadConfig(folder);
  std::vector<Json> models;
  {
    ProgressLine line("");
    for (const std::string& folder : options.models) {
      line.Begin(ModelName(folder), std::ssize(options.models) - std::ssize(models) - 1);
      models.push_back(options.out.empty() ? Observe(folder, options, line) : Collect(folder, options, line));
    }
  }
  if (!options.csv.empty()) WriteFileAtomically(options.csv, OutlierCsv(models));
  WriteJson(options.json, models.size() == 1 ? models[0] : Json(models));
  if (PrintsTables(options.json)) {
    PrintText("{}", OutlierTable(models));
    PrintText("{}", OutlierLegend(models));
    PrintLine("{} tokens of {}", models[0]["tokens"].get<int64_t>(), options.input);
    if (!options.out.empty()) PrintLine("every site: tare stats show {}", options.out);
  }
}

// Checks that CLI11 cannot express, because show, merge and diff are in the place of a MODEL.
void CheckUsage(const CLI::App& command, const StatsArguments& options) {
  if (!options.tensors.empty()) {
    for (const char* option : {"MODEL", "--input", "--csv", "--window", "--limit", "--tokens", "--from", "--math"}) {
      if (command.count(option) > 0)
        throw CLI::ValidationError(option, "has no effect with --tensors, which brings its own values");
    }
    if (options.out.empty()) throw CLI::RequiredError("--out");
    return;
  }
  for (const char* option : {"--axes", "--name"}) {
    if (command.count(option) > 0) throw CLI::RequiredError(Formatted("--tensors ({} applies to them)", option));
  }
  if (options.models.empty()) throw CLI::RequiredError("MODEL");
  if (options.input.empty()) throw CLI::RequiredError("--input");
  if (IsItems(options) && (!options.spans.empty() || options.windows.window != 0 || options.windows.tokens != 0))
    throw CLI::ValidationError("--input",
                               "items have their own marks and lengths; of these options only --limit applies");
  const StatisticsOptions& s = options.statistics;
  if (!options.out.empty()) {
    if (options.models.size() > 1) throw CLI::ValidationError("--out", "takes one MODEL: a file describes one");
  } else if (!s.sites.empty() || !s.formats.empty() || !s.calibrate.empty() || !options.spans.empty() ||
             options.shard != "0/1" || s.resume || command.count("--checkpoint") > 0) {
    throw CLI::RequiredError(
        "--out (--sites, --formats, --calibrate, --spans, --shard, --resume and --checkpoint apply to that file)");
  }
}

void AddFileOptions(CLI::App& command, StatsArguments& options) {
  StatisticsOptions& s = options.statistics;
  command.add_option("--out", options.out, "write statistics of every site to this HDF5 file (one MODEL)");
  command.add_option("--sites", s.sites,
                     "in the file of --out, only these sites, named as in plans: "
                     "attn_logits[l0-3],layer_out,weights,linear_in (default: all)");
  command
      .add_option("--formats", s.formats,
                  "for --out, measure what these formats lose at each site: int8/row,int4/group64,mxfp4; tensor, head, "
                  "channel and nvfp4 take a second pass")
      ->transform(WithGridFiles);
  command.add_option("--calibrate", s.calibrate,
                     "for --out, also store static scales of these formats, by every calibrator: int8,int6,int4");
  command.add_option("--spans", options.spans,
                     "JSON lines that mark answers and noise, to measure the attention that each gets");
  command
      .add_option("--shard", options.shard, "i/n: only part i of n, counting from 0; tare stats merge joins the parts")
      ->capture_default_str();
  command.add_flag("--resume", s.resume, "resume an interrupted run of the same job (from FILE.part)");
  AddWhole(command, "--checkpoint", s.checkpoint, "sequences between two writes of FILE.part", 1);
}

}  // namespace

void AddStats(CLI::App& app) {
  auto options = std::make_shared<StatsArguments>();
  CLI::App* command = app.add_subcommand(
      "stats",
      "measure outliers of attention logits and hidden states (the table of the Differential Transformer's paper)");
  command->add_option("MODEL", options->models, "checkpoint folders, side by side");
  command->add_option(
      "--input", options->input,
      "UTF-8 text; ids: a .safetensors or .h5 file with input_ids [B,T]; for a vision tower, a file with images "
      "[N,3,S,S]; or multiple-choice items (.jsonl), whose answer is marked where it occurs in the context");
  command->add_option(
      "--tensors", options->tensors,
      "instead of a model, arrays that another program captured: .safetensors, .h5 or .npz files with arrays named "
      "SITE.LAYER (attn_logits.0 [B,H,T,T], layer_out.0 [B,T,C]); each file holds some of the sequences");
  command->add_option("--axes", options->axes,
                      "with --tensors: a JSON file that defines other names, axes and masks "
                      "(experiments/observe/captured/captured_statistics.h)");
  command->add_option("--name", options->name,
                      "with --tensors: name of the model in tables (default: the first file's name)");
  command->add_option("--json", options->json,
                      "write JSON to a file, or - for standard output; an array if there are several models");
  command->add_option("--csv", options->csv, "write one row per model, site, layer, head and map to this file");
  AddWhole(*command, "--skip-first", options->statistics.skip_first,
           "measure also without the first N positions of every sequence: `<s>` is one constant state; 0: all "
           "positions only",
           0, kMostSkipped);
  AddFileOptions(*command, *options);
  AddWindowOptions(*command, options->windows);
  options->machine.AddTo(*command);
  AddHashAgain(*command);
  AddQuiet(*command);
  AddStatsFiles(*command);
  command->footer(Examples(
      {"tare stats experiments/pair/novels-standard experiments/pair/novels-differential --input "
       "experiments/pair/heldout.txt --tokens 20440",
       "tare stats experiments/pair/novels-differential --input experiments/pair/heldout.txt --tokens 20440 --out S.h5",
       "tare stats show S.h5 --site attn_logits"}));
  command->callback([command, options] {
    if (!command->get_subcommands().empty()) return;
    CheckUsage(*command, *options);
    Run(*options);
  });
}

}  // namespace tare
