// SPDX-License-Identifier: Apache-2.0
// tare maps: the effect of a plan on each attention map and on their difference, layer by layer
// (experiments/studies/attribution/map_errors.h).
#include <functional>
#include <memory>

#include "experiments/passes/sequences.h"
#include "experiments/significance/mean_error.h"
#include "experiments/studies/attribution/map_errors.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/plan/plan.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct MapsArguments {
  std::string model, input, json, csv;
  std::vector<std::string> plans;
  std::vector<HeadPicture> heads;
  CapturedOptions tensors;
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

// "2.1": layer 2, output head 1.
HeadPicture ParseHead(const std::string& text) {
  const std::vector<std::string> words = CLI::detail::split(text, '.');
  const auto number = [&](size_t word) { return ParseNumber<int>(word < words.size() ? words[word] : ""); };
  if (words.size() != 2 || number(0).value_or(-1) < 0 || number(1).value_or(-1) < 0)
    FailUsage("--heads: got '{}', expected a layer and an output head, from 0; try 2.1", text);
  return {*number(0), *number(1)};
}

// What measure gives for a plan, by its place; makes pictures of the heads.
using MeasurePlan = std::function<LayerMapErrors(size_t plan, std::span<HeadPicture> heads, const Progress& progress)>;

// Prints and writes what measure gives. json: what was run.
void Report(const MapsArguments& options, const std::vector<Plan>& plans, Json json, const MeasurePlan& measure) {
  const auto windows = json.at("windows").get<int64_t>();
  std::string tables;
  ProgressLine line("");
  for (size_t i = 0; i < plans.size(); ++i) {
    line.Begin(plans[i].canonical(), std::ssize(plans) - static_cast<int64_t>(i) - 1);
    std::vector<HeadPicture> heads = options.heads;
    Json plan = MapErrorJson(plans[i].canonical(), measure(i, heads, line.Callback()));
    tables += MapErrorTable(plan);
    for (const HeadPicture& head : heads) plan["heads"].push_back(head.json);
    json["plans"].push_back(std::move(plan));
  }
  if (PrintsTables(options.json))
    PrintText("{}: {} in {}, every layer run on exact inputs\n{}\n{}", json["model"].get<std::string>(),
              Counted(json["positions"].get<int64_t>(), "position"), Counted(windows, "window"), tables,
              Paragraphs(LegendOf(static_cast<size_t>(windows))));
  if (!options.csv.empty()) WriteFileAtomically(options.csv, MapErrorCsv(json["plans"]));
  WriteJson(options.json, json);
}

// The first members of the JSON. lengths: of the windows.
Json JsonOf(const std::string& model, const std::string& sha256, const std::vector<int64_t>& lengths) {
  return {{"schema", "tare.maps/1"},
          {"model", model},
          {"input_sha256", sha256},
          {"windows", lengths.size()},
          {"positions", std::ranges::fold_left(lengths, int64_t{0}, std::plus())},
          {"plans", Json::array()}};
}

void RunModel(const MapsArguments& options, const std::vector<Plan>& plans) {
  const Math math = options.machine.Apply();
  Model exact(options.model, math);
  if (exact.config().projection > 0) Fail("{}: got a tower of CLIP, expected a language model", exact.Name());
  std::vector<std::unique_ptr<PlanRun>> runs;
  for (const Plan& plan : plans)
    runs.push_back(std::make_unique<PlanRun>(plan, Carrying::kSimulated, ModelSitesOf(exact)));
  const TokenInput input = LoadModelInput(options.input, exact, options.windows.NeededOf(exact.config()));
  const std::vector<ScoredSequence> sequences = CutDisjoint(input, exact.config(), options.windows);
  std::vector<int64_t> lengths;
  for (const ScoredSequence& s : sequences) lengths.push_back(std::ssize(s.tokens));
  Json json = JsonOf(exact.Name(), input.sha256, lengths);
  if (input.in_windows) json["windows_begin"] = "lines";
  Model planned(options.model, math);
  Report(options, plans, json, [&](size_t plan, std::span<HeadPicture> heads, const Progress& progress) {
    return MeasureMapErrors(exact, planned, *runs[plan], sequences, progress, heads);
  });
}

void RunTensors(MapsArguments& options, const std::vector<Plan>& plans) {
  options.machine.Apply();
  const CapturedInput input = options.tensors.Load();
  std::vector<int64_t> lengths = input.lengths;
  std::erase(lengths, 0);  // padding alone
  if (lengths.empty()) Fail("{}: got padding alone, expected tokens", options.tensors.files.front());
  Json json = JsonOf(options.tensors.name, input.sha256, lengths);
  json["layout"] = input.layout.canonical();
  Report(options, plans, std::move(json), [&](size_t plan, std::span<HeadPicture> heads, const Progress& progress) {
    return MeasureMapErrors(input, plans[plan], progress, heads);
  });
}

void Run(const CLI::App& command, MapsArguments& options) {
  options.tensors.Check(command);
  RequireEffect(command, !options.json.empty(), {"--heads"}, "--json");
  std::vector<std::string> inputs = options.tensors.files;
  inputs.insert(inputs.end(), {options.model, options.input, options.tensors.axes});
  const std::vector<AtomicFile> claims =
      ClaimFiles(inputs, {{options.json, JsonWith("tare.maps/")}, {options.csv, "plan,layer,map,"}});
  std::vector<Plan> plans;
  for (const std::string& text : options.plans) {
    plans.push_back(Plan::Parse(text));
    if (plans.back().empty()) FailUsage("--plan: got f32, expected a plan that quantizes something; try k=int4/token");
  }
  options.tensors.files.empty() ? RunModel(options, plans) : RunTensors(options, plans);
}

}  // namespace

void AddMaps(CLI::App& app) {
  const auto [command, options] =
      NewCommand<MapsArguments>(app, "maps", "measure what a plan does to attention maps and their difference", Run);
  AddModel(command, options.model)->required(false);
  AddPlanOption(command, options.plans, "plan, simulated in each layer by itself; repeatable")->required();
  Add(command, "--input FILE", options.input, "text, or token IDs in .safetensors or .h5");
  const auto heads = [&options = options](const std::string& text) {
    for (const std::string& word : CLI::detail::split(text, ',')) options.heads.push_back(ParseHead(word));
  };
  Add(command, "--heads LAYER.HEAD,...", heads, "also pictures of these output heads in the first window, in --json");
  AddJson(command, options.json);
  Add(command, "--csv FILE", options.csv, "one row per plan, layer and map, and one per difference");
  AddWindowOptions(command, options.windows);
  options.tensors.AddTo(command, "q.LAYER, k.LAYER and v.LAYER");
  options.machine.AddTo(command);
  command.footer(
      std::string(kMapsLegend) + "\n\n" +
      Examples(
          {"tare maps experiments/pair/novels-differential --plan attn_logits=int4/row --plan k=int4/token --input "
           "experiments/pair/heldout.txt --tokens 10220",
           "tare maps experiments/pair/novels-standard --plan int8 --input experiments/pair/heldout.txt --tokens "
           "5110",
           "tare maps experiments/pair/novels-differential --plan k=int4/token --heads 2.1,3.0 --json heads.json "
           "--input "
           "experiments/pair/heldout.txt --tokens 10220",
           "tare maps --tensors captured.safetensors --axes axes.json --plan k=int4/token"}));
}

}  // namespace tare
