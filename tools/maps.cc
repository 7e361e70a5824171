// SPDX-License-Identifier: Apache-2.0
// tare maps: the effect of a plan on each attention map and on their difference, layer by layer
// (experiments/studies/attribution/map_errors.h).
#include <memory>

#include "experiments/passes/sequences.h"
#include "experiments/significance/mean_error.h"
#include "experiments/studies/attribution/map_errors.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/plan/plan.h"
#include "tools/help.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct MapsArguments {
  std::string model, input, json, csv;
  std::vector<std::string> plans;
  WindowOptions windows;
  MachineOptions machine;
};

constexpr const char* kMapsLegend =
    "logits: RMS of the error of attention logits; no shift: the same less its mean in each row, to which softmax is\n"
    "unaffected; exp bias: how much more a key with noise weighs than one without, and var / 2 what the noise's\n"
    "variance predicts of it; map: |P^ - P| / |P|; peak: how much of itself a map gains (below 0: noise flattens it),\n"
    "and formula what independent noise predicts; in common: the share of both maps' errors that the difference\n"
    "cancels (1: all; 0: they are unlike; below 0: it adds), with a 95 % interval over windows.";

// The legend of the table; without intervals, it tells why there are none.
std::string LegendOf(size_t windows) {
  std::string legend = kMapsLegend;
  if (windows >= kFewestUnits) return legend;
  return legend.substr(0, legend.rfind(", with")) + ". No intervals: " + FewUnitsText(windows, Units::kOfText) + ".";
}

void Run(const MapsArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles(
      {options.model, options.input}, {{options.json, JsonWith("tare.maps/")}, {options.csv, "plan,layer,map,"}});
  const Math math = options.machine.Apply();
  Model exact(options.model, math);
  if (exact.config().projection > 0) Fail("{}: got a tower of CLIP, expected a language model", exact.Name());
  std::vector<std::unique_ptr<PlanRun>> runs;
  for (const std::string& text : options.plans) {
    Plan plan = Plan::Parse(text);
    if (plan.empty()) FailUsage("--plan: got f32, expected a plan that quantizes something; try k=int4/token");
    runs.push_back(std::make_unique<PlanRun>(std::move(plan), Carrying::kSimulated, ModelSitesOf(exact)));
  }
  const TokenInput input = LoadModelInput(options.input, exact, options.windows.NeededOf(exact.config()));
  const std::vector<ScoredSequence> sequences = CutDisjoint(input, exact.config(), options.windows);
  size_t tokens = 0;
  for (const ScoredSequence& s : sequences) tokens += s.tokens.size();
  Json json{{"schema", "tare.maps/1"},     {"model", exact.Name()}, {"input_sha256", input.sha256},
            {"windows", sequences.size()}, {"positions", tokens},   {"plans", Json::array()}};
  if (input.in_windows) json["windows_begin"] = "lines";
  std::string tables;
  Model planned(options.model, math);
  ProgressLine line("");
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string name = runs[i]->plan().canonical();
    line.Begin(name, std::ssize(runs) - static_cast<int64_t>(i) - 1);
    const LayerMapErrors layers = MeasureMapErrors(exact, planned, *runs[i], sequences, line.Callback());
    json["plans"].push_back(MapErrorJson(name, layers));
    tables += MapErrorTable(json["plans"].back());
  }
  if (PrintsTables(options.json))
    PrintText("{}: {} in {}, every layer run on exact inputs\n{}\n{}", exact.Name(), Counted(tokens, "position"),
              Counted(std::ssize(sequences), "window"), tables, Paragraphs(LegendOf(sequences.size())));
  if (!options.csv.empty()) WriteFileAtomically(options.csv, MapErrorCsv(json["plans"]));
  WriteJson(options.json, json);
}

}  // namespace

void AddMaps(CLI::App& app) {
  const auto [command, options] =
      NewCommand<MapsArguments>(app, "maps", "measure what a plan does to attention maps and their difference", Run);
  AddModel(command, options.model);
  AddPlanOption(command, options.plans, "plan, simulated in each layer by itself; repeatable")->required();
  Add(command, "--input FILE", options.input, "text, or token IDs in .safetensors or .h5")->required();
  AddJson(command, options.json);
  Add(command, "--csv FILE", options.csv, "one row per plan, layer and map, and one per difference");
  AddWindowOptions(command, options.windows);
  options.machine.AddTo(command);
  command.footer(
      std::string(kMapsLegend) + "\n\n" +
      Examples(
          {"tare maps experiments/pair/novels-differential --plan attn_logits=int4/row --plan k=int4/token --input "
           "experiments/pair/heldout.txt --tokens 10220",
           "tare maps experiments/pair/novels-standard --plan int8 --input experiments/pair/heldout.txt --tokens "
           "5110"}));
}

}  // namespace tare
