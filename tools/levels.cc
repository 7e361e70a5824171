// SPDX-License-Identifier: Apache-2.0
// tare levels: levels of keys and values learned on a calibration text (experiments/observe/learned_levels.h).
#include "experiments/observe/learned_levels.h"
#include "experiments/quantize/calibration/calibration_texts.h"
#include "experiments/table/table.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/plan/plan.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct LevelsArguments {
  std::string model, plan, calibrate, out, json;
  WindowOptions windows{.tokens = 32768};
  MachineOptions machine;
};

constexpr const char* kLevelsLegend =
    "loss: mean square error of a value, in shares of its group's variance, by the plan's own levels and by the "
    "learned\n"
    "ones, on the calibration text itself.";

Table TableOfLevels(const LearnedLevels& learned) {
  const Columns<LayerLevels> columns{
      {{.name = "site", .title = "site", .side = Side::kLeft}, [](const LayerLevels& l) { return Name(l.site); }},
      {{.name = "layer", .title = "layer"}, &LayerLevels::layer},
      {{.name = "rule"}, &LayerLevels::rule},
      {{.name = "values", .title = "values"}, &LayerLevels::values},
      {Number("loss", "loss", "{:.4f}"), &LayerLevels::loss},
      {Number("learned_loss", "learned", "{:.4f}"), &LayerLevels::learned_loss},
      {{.name = "levels"}, &LayerLevels::levels}};
  return TableOf(columns, learned.layers);
}

void Run(const LevelsArguments& options) {
  const CalibrationTexts texts = CalibrationTexts::Parse(options.calibrate);
  if (texts.empty()) FailUsage("--calibrate: got no text, expected one; try --calibrate FILE");
  std::vector<std::string> inputs{options.model};
  for (const CalibrationTexts::Part& part : texts.parts) inputs.push_back(part.file.string());
  const std::vector<AtomicFile> claims =
      ClaimFiles(inputs, {{options.out, "?=grid("}, {options.json, JsonWith("tare.levels/")}});
  const Plan plan = Plan::Parse(options.plan);
  Model model(options.model, options.machine.Apply());
  const CalibrationWindows windows = CutCalibration(texts, model.folder(), model.config(), options.windows);
  model.Show(windows.images);
  ProgressLine line("levels");
  const LearnedLevels learned = LearnLevels(model, plan, windows.sequences, line.Callback());
  const Table table = TableOfLevels(learned);
  if (PrintsTables(options.json))
    PrintText("{}: levels of {}\n\n{}\n{}{}", model.Name(), plan.canonical(), TableText(table),
              Paragraphs(kLevelsLegend), options.out.empty() ? "\n" + learned.plan.canonical() + "\n" : "");
  if (!options.out.empty()) WriteFileAtomically(options.out, learned.plan.canonical() + "\n");
  WriteJson(options.json, {{"schema", "tare.levels/1"},
                           {"model", model.Name()},
                           {"calibration", windows.provenance},
                           {"plan", plan.canonical()},
                           {"learned_plan", learned.plan.canonical()},
                           {"layers", TableJson(table)}});
}

}  // namespace

void AddLevels(CLI::App& app) {
  const auto [command, options] =
      NewCommand<LevelsArguments>(app, "levels", "learn codebooks of keys and values on a text, as KVQuant does", Run);
  AddModel(command, options.model);
  AddPlanOption(command, options.plan, "k and v with +mean, e.g. k=normal3/channel+mean+outliers1")->required();
  Add(command, "--calibrate FILE[:WEIGHT],...", options.calibrate, "text or token IDs, not the evaluated text")
      ->required();
  Add(command, "--out FILE", options.out, "the plan with the learned codebooks");
  AddJson(command, options.json);
  AddWindowOptions(command, options.windows);
  options.machine.AddTo(command);
  command.footer(std::string(kLevelsLegend) + "\n\n" +
                 Examples({"tare levels experiments/pair/novels-differential --plan "
                           "k=normal3/channel+mean+outliers1+prerotary,v=normal3/token+mean+outliers1 --calibrate "
                           "experiments/pair/heldout.txt --tokens 16384 --out levels.txt",
                           "tare eval experiments/pair/novels-differential --plan \"$(cat levels.txt)\" --tasks "
                           "perplexity=experiments/pair/nowhere.txt --tokens 5110"}));
}

}  // namespace tare
