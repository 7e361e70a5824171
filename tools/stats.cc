// SPDX-License-Identifier: Apache-2.0
// tare stats: outliers of attention logits and hidden states, models side by side; --out: every site's statistics.
#include "experiments/model/config/config.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/observe/statistics_report.h"
#include "experiments/significance/inference.h"
#include "experiments/studies/attribution/attribution.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct StatsArguments {
  std::vector<std::string> models;
  CapturedOptions tensors;
  std::string input, spans, json, csv, out, shard = "0/1", plan;
  Carrying carrying = Carrying::kSimulated;
  StatisticsOptions statistics;
  WindowOptions windows;
  MachineOptions machine;
};

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

// A model's figures of the table and their sources; with --out from every site's statistics, which it writes.
Json Measure(const std::string& folder, const StatsArguments& options, ProgressLine& line) {
  Model model(folder, WeightReading::kWhole, options.machine.Apply(), {}, options.statistics.layers);
  const auto [input, sequences, spans] = LoadInput(model, options);
  StatisticsOptions statistics = options.statistics;
  statistics.spans = spans;
  if (options.out.empty()) statistics.sites = kOutlierSites;
  const StatisticsSet set =
      CollectStatistics(model, input, sequences, statistics, TARE_VERSION, options.out, line.Callback());
  Json json = OutlierJson(set, model.config(), model.Name());
  json["positions"] = set.positions;
  json["sequences"] = sequences.size();
  json["window"] = options.windows.window;
  json["math"] = options.machine.math;
  json["weights_sha256"] = set.job.at("weights_sha256");
  json["input_sha256"] = input.sha256;
  if (input.in_windows) json["windows_begin"] = "lines";
  if (!options.out.empty()) json["statistics"] = options.out;
  return json;
}

std::vector<Output> OutputsOf(const StatsArguments& options, const std::string& json_schema,
                              const std::string& csv_columns) {
  std::vector<Output> outputs{{options.json, JsonWith(json_schema)}, {options.csv, csv_columns}};
  if (options.out.empty()) return outputs;
  for (const std::string& file : {options.out, options.out + ".part"})
    outputs.push_back({file, Hdf5With("tare.stats.file/")});
  return outputs;
}

constexpr const char* kNmseLegend = "nmse: squared error of head_out over its square; 1e-4 is a relative error of 1 %";

// What a plan's table has above kNmseLegend, and how its intervals were made or why it has none.
std::string IntervalsLegend(const std::vector<Attribution>& all) {
  const int64_t sequences = all.front().count;
  const bool few = sequences < static_cast<int64_t>(kFewestUnits);
  std::string text;
  if (all.front().parts.size() > 1) text = few ? std::string(kPartsLegend) : AttributionLegend(all);
  text += few ? Formatted("no intervals of {}: expected {} or more\n", Counted(sequences, "sequence"), kFewestUnits)
              : Formatted("intervals: Student's t over {} sequences, corrected for skewness\n", sequences);
  return text;
}

// A plan of one part needs no table: "head_out.0, nmse: 3.54e-03 [3.0e-03, 4.1e-03] (95 %) simulated".
std::string NmseLines(const std::vector<Attribution>& all) {
  std::string lines;
  for (const Attribution& a : all)
    lines += Formatted(
        "{}, nmse: {} simulated\n", a.task,
        a.change.interval ? WithInterval(a.whole, *a.change.interval, ".2e") + " (95 %)" : NumberText(a.whole, ".2e"));
  return lines;
}

// With how the arrays were read: "read as sequences 2, tokens 40, ..".
void ShowCosts(const StatsArguments& options, const CapturedInput& input, const std::string& text, Json json) {
  const Json read = json["read"] = ReadAs(input);
  const auto figure = [](const auto& entry) {
    const Json& value = entry.value();
    return entry.key() + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  };
  if (PrintsTables(options.json))
    PrintText("{}{}{}\n", Wrapped("read as " + Listed(read.items(), ", ", figure), 2), text, kNmseLegend);
  WriteJson(options.json, json);
}

// What a plan costs in the attention of q, k and v that another program captured.
void PricePlan(const StatsArguments& options, const CapturedInput& input, const std::string& name) {
  const Plan plan = Plan::Parse(options.plan);
  const std::vector<Attribution> all = AttributeCaptured(input, plan, ProgressLine(name).Callback());
  const std::string table = all.front().parts.size() == 1 ? NmseLines(all) : AttributionTable(all) + "\n";
  ShowCosts(options, input, table + IntervalsLegend(all), AttributionJson(all, name, plan, "site"));
  if (!options.csv.empty()) WriteFileAtomically(options.csv, AttributionCsv(all, plan));
}

void PriceExecuted(const StatsArguments& options, const CapturedInput& input, const std::string& name) {
  const Plan plan = Plan::Parse(options.plan);
  Json json{{"schema", "tare.attribution.executed/1"}, {"model", name}, {"plan", plan.canonical()}};
  std::string text;
  for (const auto& [layer, nmse] : ExecutedLosses(input, plan, ProgressLine(name).Callback())) {
    json["nmse"][Formatted("head_out.{}", layer)] = nmse;
    text += Formatted("head_out.{}, nmse: {:.2e} executed\n", layer, nmse);
  }
  ShowCosts(options, input, text, json);
}

// Collects statistics of arrays that another program captured, or the costs of a plan.
void CollectTensors(StatsArguments& options) {
  std::vector<std::string> inputs = options.tensors.files;
  inputs.insert(inputs.end(), {options.tensors.axes, options.spans});
  const std::vector<AtomicFile> claims =
      options.plan.empty()
          ? ClaimFiles(inputs, OutputsOf(options, "tare.stats.file/", "site,layer,head,map,"))
          : ClaimFiles(inputs, {{options.json, JsonWith("tare.attribution")}, {options.csv, "task,figure,"}});
  const CapturedInput input = options.tensors.Load();
  if (!options.spans.empty()) options.statistics.spans = MarkedSpans::Load(options.spans, input.lengths);
  const std::string& name = options.tensors.name;
  if (options.carrying == Carrying::kExecuted) return PriceExecuted(options, input, name);
  if (!options.plan.empty()) return PricePlan(options, input, name);
  const StatisticsSet set =
      CollectCaptured(input, name, options.statistics, TARE_VERSION, options.out, ProgressLine(name).Callback());
  if (!options.csv.empty()) WriteFileAtomically(options.csv, RowsCsv(AllSitesJson(set, SiteJson)));
  ShowOverview(set, options.out, options.json);
}

// Show, merge and diff are in the place of a MODEL.
void CheckUsage(const CLI::App& command, const StatsArguments& options) {
  if (options.tensors.files.empty()) Need(command, {"--plan", "--executed"}, "--tensors");
  options.tensors.Check(command);
  if (!options.tensors.files.empty()) {
    if (options.plan.empty() && command.count("--plan") > 0)
      throw CLI::ValidationError("--plan", "got no rules, expected some for q, k, v ..; try leaving it out");
    if (options.plan.empty()) Need(command, {"--executed"}, "--plan");
    if (options.carrying == Carrying::kExecuted) Exclude(command, "--executed", {"--csv"});
    if (!options.plan.empty())
      return Exclude(command, "--plan",
                     {"--out", "--sites", "--formats", "--calibrate", "--spans", "--skip-first", "--shard", "--fresh",
                      "--checkpoint"});
    if (options.out.empty()) Need(command, {"--shard", "--fresh", "--checkpoint"}, "--out");
    return;
  }
  if (IsItems(options) && (!options.spans.empty() || options.windows.window != 0 || options.windows.tokens != 0))
    throw CLI::ValidationError("--input",
                               "got items with --spans, --window or --tokens, expected only --limit: they "
                               "have their own marks and lengths");
  if (options.out.empty())
    return Need(command, {"--sites", "--formats", "--calibrate", "--spans", "--shard", "--fresh", "--checkpoint"},
                "--out");
  if (options.models.size() > 1)
    throw CLI::ValidationError("--out",
                               Formatted("got {} MODELs, expected one, which a file describes", options.models.size()));
}

void Run(const CLI::App& command, StatsArguments& options) {
  if (!command.get_subcommands().empty()) return;
  CheckUsage(command, options);
  options.statistics.shard = ParseShard("--shard", options.shard);
  options.statistics.asked = AskedBy(command);
  if (!options.tensors.files.empty()) {
    options.machine.Apply();
    return CollectTensors(options);
  }
  std::vector<std::string> inputs = options.models;
  inputs.insert(inputs.end(), {options.input, options.spans});
  const std::vector<AtomicFile> claims =
      ClaimFiles(inputs, OutputsOf(options, "tare.stats/", "model,site,layer,head,map,"));
  for (const std::string& folder : options.models) LoadConfig(folder);
  std::vector<Json> models;
  {
    ProgressLine line("");
    for (const std::string& folder : options.models) {
      line.Begin(ModelName(folder), std::ssize(options.models) - std::ssize(models) - 1);
      models.push_back(Measure(folder, options, line));
    }
  }
  if (!options.csv.empty()) WriteFileAtomically(options.csv, OutlierCsv(models));
  WriteJson(options.json, models.size() == 1 ? models[0] : Json(models));
  if (PrintsTables(options.json)) {
    PrintText("{}", OutlierTable(models));
    PrintText("{}", OutlierLegend(models));
    if (models.size() > 1) PrintText("{}", Paragraphs(kOneTraining));
    PrintLine("{} tokens of {}", models[0]["tokens"].get<int64_t>(), options.input);
    if (!options.out.empty()) PrintLine("{}: every site; tare stats show {}", Made(options.out), options.out);
  }
}

}  // namespace

void AddStats(CLI::App& app) {
  const auto [command, options] =
      NewCommand<StatsArguments>(app, "stats", "measure outliers of attention logits and hidden states", Run);
  AddStatsFiles(command);
  StatisticsOptions& s = options.statistics;
  AddModel(command, options.models)->required(false);
  Group(command, "What to measure");
  Add(command, "--input FILE", options.input,
      "text; token IDs; for a vision tower images [N,3,S,S]; or items (.jsonl), whose answers are marked");
  AddWhole(command, "--layers N", s.layers, "the first N layers alone; others are neither read nor run; 0: all", 0,
           1 << 16);
  AddWhole(command, "--skip-first N", s.skip_first,
           "measure also without the first N positions, such as <s>; 0: only all", 0, kMostSkipped);
  AddJson(command, options.json);
  Add(command, "--csv FILE", options.csv, "one row per model, site, layer, head and map");
  Group(command, "Statistics of every site");
  Add(command, "--out FILE", options.out, "HDF5 file to write, of one MODEL; the others here need it");
  Add(command, "--sites NAME,...", s.sites, "only these, as plans name them: attn_logits[l0-3],weights");
  Add(command, "--formats LIST", s.formats, "also the error of formats at each site: int8/row,int4/group64,mxfp4")
      ->transform(WithGridFiles);
  Add(command, "--calibrate LIST", s.calibrate, "also static scales of formats, by every calibrator: int8,int4");
  Add(command, "--spans FILE", options.spans, "JSON lines that mark answers and noise, whose attention is measured");
  Add(command, "--shard I/N", options.shard, "part I of N, from 0; tare stats merge joins the parts");
  AddFresh(command, s.fresh, "OUT.part or OUT");
  AddWhole(command, "--checkpoint N", s.checkpoint, "sequences between two writes of OUT.part", 1);
  AddWindowOptions(command, options.windows);
  options.tensors.AddTo(command, "arrays SITE.LAYER, as layer_out.0 [B,T,C]");
  AddPlanOption(command, options.plan,
                "instead of statistics, what these rules for q, k, v, attn_logits .. cost there");
  AddExecutedFlag(command, options.carrying);
  options.machine.AddTo(command, AddHashAgain);
}

}  // namespace tare
