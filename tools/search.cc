// SPDX-License-Identifier: Apache-2.0
// tare search (experiments/studies/search/search.h): the cheapest plan within a loss, or of least loss within a size.
// Runs every level of every part alone, then a few plans, as cells of a sweep.
#include "experiments/studies/search/search.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "experiments/model/model.h"
#include "experiments/quantize/quantize.h"
#include "tools/cells.h"

namespace tare {
namespace {

struct SearchArguments : CellsCommand {
  std::filesystem::path model;
  std::string input, bytes, out_model;
  double within = 0, bits_per_weight = 0;
};

// Sites, bits and granularities if no option gives them: of a size, weights alone, which are what has one.
struct Usual {
  std::string sites;
  std::vector<int> bits;
  std::vector<std::string> granularities;
};
const Usual kWithinLoss{"weights,linear_in,q,k,v,attn_logits,probs", {8, 6, 4}, {"row"}};
const Usual kWithinSize{"weights", {8, 6, 4, 3, 2}, {"channel"}};

// What is searched: the parts and their levels, and those that each given plan has for all parts.
struct Choices {
  std::vector<SearchPart> parts;
  std::vector<std::vector<size_t>> uniform;
};

// Uses the levels' plans as the sweep's.
Choices Ask(SearchArguments& options, const ModelConfig& config) {
  const int64_t window = options.sweep.windows.window > 0 ? options.sweep.windows.window
                                                          : std::min<int64_t>(kTextWindow, config.max_positions);
  const std::vector<Plan> plans = PlansOf(options.sweep.question);
  Choices choices{.parts = SearchParts(plans, config, window), .uniform = {}};
  for (const Plan& plan : plans) {
    if (!plan.empty()) choices.uniform.push_back(LevelsOf(plan, choices.parts, config, window));
  }
  options.sweep.question.plans = SensitivityPlans(choices.parts);
  options.sweep.study = "search";
  return choices;
}

// "812M", "2.0G", "2000000000": decimal units, as sizes are printed.
double BytesOf(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, text.data() + text.size());
  constexpr std::string_view kUnits = "KMGT";
  const size_t power = unit.empty() ? 0 : kUnits.find(unit.front()) + 1;
  if (error != std::errc() || !(value > 0) || !std::isfinite(value) || unit.size() > 1 || (power == 0 && !unit.empty()))
    FailUsage("--bytes: got '{}', expected a size; try 800M or 2.0G", text);
  return value * std::pow(1000.0, static_cast<double>(power));
}

// Empty without one. Sets the costs of the parts' levels.
std::optional<SearchBudget> BudgetOf(const SearchArguments& options, const ModelConfig& config,
                                     std::vector<SearchPart>& parts) {
  if (options.within != 0) return std::nullopt;
  SearchBudget budget{.bits = 0, .stored = CountStoredBits(options.model, config, parts)};
  budget.bits = options.bytes.empty() ? options.bits_per_weight * budget.stored.weights
                                      : 8 * BytesOf(options.bytes) - budget.stored.others;
  RequireRoom(budget, parts);
  return budget;
}

void CheckLimit(const CLI::App& command, const SearchArguments& options) {
  const auto given = [&](const char* option) { return command.count(option) > 0 ? 1 : 0; };
  const int limits = given("--within") + given("--bits-per-weight") + given("--bytes");
  if (limits != 1)
    FailUsage("search: got {} of --within, --bits-per-weight and --bytes, expected one; try --within 0.01", limits);
  if (given("--within") && !(options.within > 0))
    FailUsage("--within: got {}, expected nats per token above 0; try 0.01", options.within);
  if (given("--bits-per-weight") && !(options.bits_per_weight > 0 && options.bits_per_weight <= 64))
    FailUsage("--bits-per-weight: got {}, expected bits above 0 and up to 64; try 4.25", options.bits_per_weight);
  if (given("--bytes")) BytesOf(options.bytes);
  RequireEffect(command, !given("--within"), {"--out-model"}, "--bits-per-weight or --bytes");
}

// The requested cells, without the folder's others.
std::vector<SweepCell> Cells(SearchArguments& options) {
  std::vector<SweepCell> cells = RunCells(options.sweep);
  options.sweep.says_earlier = false;  // from now on they are this run's
  if (!options.sweep.only) cells.resize(options.sweep.tasks.size() * options.sweep.question.plans.size());
  return cells;
}

// The answer, rounded to nearest.
void WriteModel(const SearchArguments& options, const Search& search) {
  if (options.out_model.empty()) return;
  const QuantizeJob job{.model = options.model, .plan = Plan::Parse(search.Answer().plan), .out = options.out_model};
  const QuantizeSummary made = Quantize(job, ProgressLine("quantize").Callback());
  if (PrintsTables(options.json))
    PrintLine("{}: {} matrices, {:.3f} bits per weight, {} of tensors", Made(options.out_model), made.matrices,
              made.bits_per_weight, SizeText(made.bytes_after));
}

void Run(const CLI::App& command, SearchArguments& options) {
  CheckLimit(command, options);
  const Usual& usual = options.within != 0 ? kWithinLoss : kWithinSize;
  if (command.count("--site") == 0) options.sweep.question.site = usual.sites;
  if (command.count("--bits") == 0) options.sweep.question.bits = usual.bits;
  if (command.count("--granularity") == 0) options.sweep.question.granularities = usual.granularities;
  options.sweep.models = {options.model};
  const ModelConfig config = LoadConfig(options.model);
  const std::string divergence = "divergence=" + options.input;
  const std::vector<TaskSpec> all = ParseTasks(divergence + (options.tasks.empty() ? "" : "," + options.tasks));
  options.sweep.tasks = {all.front()};
  if (options.list) {
    Ask(options, config);
    return PrintCells(options.sweep);
  }
  Search search;
  search.model = ModelName(options.model);
  search.within = options.within;
  Choices choices = Ask(options, config);
  search.budget = BudgetOf(options, config, choices.parts);
  search.parts = std::move(choices.parts);
  Select(options);
  options.sweep.tasks = all;
  const ClaimedFolder claims = ClaimCells(options, "search", "tare.search/");
  const std::vector<AtomicFile> model = ClaimFiles({}, {{options.out_model, Hdf5With("tare.quantized/")}});
  options.sweep.tasks = {all.front()};
  options.sweep.math = options.machine.Apply();
  Merge(options);
  const std::vector<SweepCell> alone = Cells(options);
  if (options.sweep.only) return PrintLine("finished runs are in {}", options.sweep.folder.string());
  SetLosses(alone, search.parts);
  search.frontier =
      search.budget ? ChoicesWithin(*search.budget, search.parts, choices.uniform) : Frontier(search.parts);
  options.sweep.tasks = all;
  Verify(search, [&](size_t step) {
    const std::string plan = PlanAt(search.parts, search.frontier[step].levels, config);
    options.sweep.question.plans = {"f32", plan};
    return PointOf(step, Plan::Parse(plan).canonical(), Cells(options));
  });
  const StudyResult result{
      .json = SearchJson(search), .csv = SearchCsv(search), .table = SearchTable(search), .legend = {}};
  WriteStudy(options.sweep.folder, "search", result);
  ShowStudy(options, "search", result);
  WriteModel(options, search);
}

}  // namespace

void AddSearch(CLI::App& app) {
  const auto [command, options] = NewCommand<SearchArguments>(
      app, "search", "find the cheapest plan within a loss, or the best within a size", Run);
  AddModel(command, options.model);
  Group(command, "What to search for");
  Add(command, "--input FILE", options.input, "text or token IDs, for the KL divergence from MODEL")->required();
  Add(command, "--within X", options.within, "largest KL divergence, nats per token");
  Add(command, "--bits-per-weight X", options.bits_per_weight, "instead: most bits per weight, with scales");
  Add(command, "--bytes SIZE", options.bytes, "instead: most bytes of all tensors, 800M or 2.0G");
  Add(command, "--out-model FILE", options.out_model, "also write the answer as a quantized checkpoint");
  Group(command, "What to choose from (default within a size: weights, 8,6,4,3,2, channel)");
  SweepQuestion& question = options.sweep.question;
  Add(command, "--site NAME,...", question.site, "sites")->default_str(kWithinLoss.sites);
  AddList(command, "--bits N,...", question.bits, "besides unquantized; also 3, 2 for weights, k, v")
      ->default_str("8,6,4");
  AddList(command, "--granularity NAME,...", question.granularities, "row, head, tensor; weights: channel, groupN")
      ->default_str("row");
  AddPlanOption(command, question.plans, "instead: a plan that gives each part one level; repeatable")
      ->excludes("--site", "--bits", "--granularity");
  AddCellsOptions(command, options);
  command.get_option("--tasks")->required(false)->description("also run at the measured points (tare help tasks)");
  AddCellNumbers(command, options);
  AddSharedOptions(command, options);
}

}  // namespace tare
