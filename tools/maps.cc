// SPDX-License-Identifier: Apache-2.0
// tare maps: a plan's effect on each attention map and their difference, by layer
// (experiments/studies/attribution/map_errors.h). tare dump: a model's tensors as HDF5, or logits for llama-perplexity.
#include <functional>

#include "experiments/arrays/array_file.h"
#include "experiments/observe/dump.h"
#include "experiments/significance/mean_error.h"
#include "experiments/studies/attribution/map_errors.h"
#include "tools/run_options.h"

namespace tare {
namespace {

// ---- maps

struct MapsArguments {
  std::string model, input, json, csv;
  std::vector<std::string> plans;
  std::vector<HeadPicture> heads;
  CapturedOptions tensors;
  WindowOptions windows;
  MachineOptions machine;
};

// The legend of the table; without intervals, it tells why there are none.
std::string LegendOf(size_t windows) {
  std::string legend = NotesOf("maps");
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

// ---- dump

struct DumpArguments {
  std::string model, input, out, plan, stats;
  std::vector<std::string> sites{"logits"};
  Carrying carrying = Carrying::kSimulated;
  WindowOptions windows{.from = TakeFrom::kStart};
  MachineOptions machine;
};

void Run(const CLI::App& command, DumpArguments& options) {
  Plan plan = Plan::Parse(options.plan);
  RequireEffect(command, !plan.empty(), {"--executed"}, "a --plan");
  RequireEffect(command, plan.HasStaticScales(), {"--stats"}, "a rule with +static");
  const bool base = IsBaseFile(options.out);
  RequireEffect(command, !base, {"--sites", "--stride"},
                "an --out named .h5: " + options.out + " holds logits of windows side by side");
  const std::vector<AtomicFile> claims =
      ClaimFiles({options.model, options.input, options.stats},
                 {{options.out, base ? std::string(kBaseMagic) : Hdf5With("tare.dump/")}});
  Model model(options.model, options.machine.Apply());
  PlanRun run(std::move(plan), options.carrying, ModelSitesOf(model), StaticSourceOf(options.stats, model.files()));
  const TokenInput input = LoadModelInput(options.input, model, options.windows.NeededOf(model.config()));
  std::vector<ScoredSequence> sequences = CutSequences(input, model.config(), options.windows);
  if (const ScoredSequence& last = sequences.back(); base && sequences.size() > 1 && last.first_target > 1) {
    Notice(options.out + ": without the last window, which shares tokens with the one before; its rows have no place");
    sequences.pop_back();
  }
  const WindowOptions& w = options.windows;
  const DumpOrigin origin{
      {"version", TARE_VERSION},
      {"input_sha256", input.sha256},
      {"windows", Formatted("window {}, stride {}, tokens {}, limit {}, from {}{}", w.window, w.stride, w.tokens,
                            w.limit, Name(w.from), input.in_windows ? ", each beginning at a line or word" : "")}};
  Dump(model, run, sequences, {options.sites.begin(), options.sites.end()}, options.out,
       ProgressLine("dump").Callback(), origin);
  PrintLine("{}: {} of {}", Made(options.out), Counted(std::ssize(sequences), "sequence"),
            Counted(std::ssize(sequences.at(0).tokens), "token"));
}

}  // namespace

void AddMaps(CLI::App& app) {
  const auto [command, options] =
      NewCommand<MapsArguments>(app, "maps", "measure what a plan does to attention maps and their difference", Run);
  AddModel(command, options.model)->required(false);
  AddPlanOption(command, options.plans, "plan, simulated in each layer by itself; repeatable")->required();
  Add(command, "--input FILE", options.input, "text, or token IDs in .safetensors or .h5");
  const auto heads = [&shown = options.heads](const std::string& text) {
    for (const std::string& word : CLI::detail::split(text, ',')) shown.push_back(ParseHead(word));
  };
  Add(command, "--heads LAYER.HEAD,...", heads, "also pictures of these output heads in the first window, in --json");
  AddJson(command, options.json);
  Add(command, "--csv FILE", options.csv, "one row per plan, layer and map, and one per difference");
  AddWindowOptions(command, options.windows);
  options.tensors.AddTo(command, "q.LAYER, k.LAYER and v.LAYER");
  options.machine.AddTo(command);
}

void AddDump(CLI::App& app) {
  const auto [command, options] =
      NewCommand<DumpArguments>(app, "dump", "write what a model computes at named sites to an HDF5 file", Run);
  AddModel(command, options.model);
  Add(command, "--input FILE", options.input, "UTF-8 text, or token IDs: .safetensors or .h5 with input_ids [B,T]")
      ->required();
  AddList(command, "--sites NAME,...", options.sites, "also embed, layer_out, final_norm, attn_logits")
      ->check(OneOf("logits|embed|layer_out|final_norm|attn_logits"));
  Add(command, "--out FILE", options.out, "HDF5 file to write; F.kld: as llama-perplexity's --kl-divergence-base")
      ->required();
  AddPlanAndHow(command, options.plan, options.carrying, options.stats);
  AddWindowOptions(command, options.windows);
  AddStrideOption(command, options.windows);
  options.machine.AddTo(command, AddHashAgain);
}

}  // namespace tare
