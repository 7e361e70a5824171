// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/sweep.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "experiments/model/batch.h"
#include "experiments/model/config/config.h"
#include "experiments/model/plan_run.h"
#include "experiments/studies/sweep/cells.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// A model's static scales; empty if the sweep has none.
struct Seen {
  StaticSource source;
  std::string sha256;     // of the file
  std::string of_source;  // hash of the weights of SweepOptions::source; "": none
};

Json KeyOf(const Model& model, const std::string& weights_hash, const Plan& plan, const Seen& seen, const Task& task,
           const SweepOptions& options) {
  Json key{{"model", model.Name()},         {"weights", weights_hash},
           {"plan", plan.canonical()},      {"task", task.spec.Name()},
           {"input", task.sha256},          {"math", options.math == Math::kBf16 ? "bf16" : "f32"},
           {"limit", options.windows.limit}};
  if (options.windows.TakesPart()) key["from"] = Name(options.windows.Part());
  if (options.carrying == Carrying::kExecuted && !plan.empty()) key["executed"] = true;
  if (options.cache) key["cache"] = Name(*options.cache);
  if (plan.HasStaticScales() || (options.cache && options.cache->rules.HasStaticScales())) key["stats"] = seen.sha256;
  if (!options.source.empty()) {
    key["source"] = ModelName(options.source);
    key["source_weights"] = seen.of_source;
  }
  for (const auto& [name, hash] : ModelFileHashes(model.folder())) key[name] = hash;
  if (!task.other_tower.empty()) key["other_tower"] = task.other_tower;
  if (const auto convention = task.spec.kind->convention) key.update(convention(options.windows));
  if (IsReadInWindows(task.spec, model.config(), options.windows)) key["windows_begin"] = "lines";
  if (const auto answers = task.spec.kind->answers) key.update(answers(options.answers));
  return key;
}

// The static scales of every model, in order. The source of versions runs as stored, so it has no statistics.
std::vector<Seen> ReadSeen(const SweepOptions& options) {
  std::vector<Seen> seen(options.models.size());
  if (options.statistics.empty()) return seen;
  const size_t first = options.source.empty() ? 0 : 1, models = options.models.size() - first;
  if (options.statistics.size() != models)
    FailUsage("--stats: got {} files, expected one per {}, in the order of the {} {}s; try --stats once for each",
              options.statistics.size(), first == 0 ? "model" : "version", models, first == 0 ? "model" : "version");
  for (size_t i = 0; i < models; ++i) {
    const std::filesystem::path& file = options.statistics[i];
    seen[first + i] = {StaticSourceOf(file, Checkpoint(options.models[first + i])), Sha256OfFile(file)};
  }
  return seen;
}

// Plans by model. If each site is a plan, a group is its sites that all models have. A versions' source runs as stored.
std::vector<std::vector<Plan>> PlansFor(const SweepOptions& options) {
  SweepQuestion question = options.question;
  if (question.sites == SweepSites::kEach) {
    for (const std::filesystem::path& model : options.models) {
      const ModelSites sites = ModelSitesOf(LoadConfig(model));
      for (const char* group : {"weights", "linear_in"}) {
        for (const Site site : ExpandSites(group)) {
          if (!sites.Has(site)) question.lacking.insert(site);
        }
      }
    }
  }
  std::vector<std::vector<Plan>> plans(options.models.size(), PlansOf(question));
  if (!options.source.empty()) plans.front() = {Plan()};
  return plans;
}

struct ListedCell {
  std::string name;
  const TaskSpec* task;
};

// plans: of each model.
std::vector<ListedCell> CellsOfAll(const SweepOptions& options, const std::vector<std::vector<Plan>>& plans) {
  std::vector<ListedCell> list;
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::string model = ModelName(options.models[i]);
    for (const TaskSpec& task : options.tasks) {
      for (const Plan& plan : plans[i])
        list.push_back({Formatted("{} {} {}", model, plan.canonical(), task.Name()), &task});
    }
  }
  return list;
}

// Refuses what can be refused before hours of work; returns the contents of the models' statistics files.
std::vector<Seen> CheckOptions(const SweepOptions& options, const std::vector<std::vector<Plan>>& plans) {
  std::vector<Seen> seen = ReadSeen(options);
  if (!options.source.empty()) {
    const std::string hash = Checkpoint(options.source).ContentHash();
    for (Seen& one : seen) one.of_source = hash;
  }
  std::set<std::string> names;
  for (size_t i = 0; i < options.models.size(); ++i) {
    const std::filesystem::path& folder = options.models[i];
    if (i > 0 && (!options.source.empty() || options.study == "compare"))
      RequireSamePieces(options.models.front(), folder);
    const Model model(folder);  // whose rows a plan's groups must divide
    if (!names.insert(ModelName(folder)).second)
      Fail("got the model name {} twice, expected each once; try renaming a folder", ModelName(folder));
    for (const Plan& plan : plans[i])
      CheckCache(options.tasks,
                 PlanRun(plan, options.carrying, ModelSitesOf(model), seen[i].source, options.cache).cache());
  }
  return seen;
}

// A cell of the folder, by its key; empty if its task is of an unknown kind.
std::optional<SweepCell> CellOf(const Json& key, const CellLog& log, const std::vector<TaskSpec>& tasks) {
  const std::string task = key["task"];
  const auto spec = std::ranges::find(tasks, task, &TaskSpec::Name);
  const TaskKind* kind = spec != tasks.end() ? spec->kind : KindNamed(task);
  if (kind == nullptr || !key.contains("model") || !key["model"].is_string()) return std::nullopt;
  const Json& result = *log.Find(key);
  std::optional<Figures> figures = ReadFigures(result, *kind);
  if (!figures) return std::nullopt;
  const Plan plan = Plan::Parse(key["plan"].get<std::string>());
  return SweepCell{key["model"], key["task"], kind, RowOf(plan), key, result, *std::move(figures)};
}

// Adds what earlier sweeps left in the folder and can be compared.
void AddOthers(const CellLog& log, const std::vector<TaskSpec>& tasks, std::vector<SweepCell>& cells) {
  const std::vector<SweepCell> asked = cells;
  std::set<std::string> identities;
  for (const SweepCell& cell : asked) identities.insert(IdentityText(cell.key));
  std::map<std::string, int> left_out;  // by the setting
  for (const Json& key : log.keys()) {
    if (identities.contains(IdentityText(key))) continue;
    const std::optional<SweepCell> other = CellOf(key, log, tasks);
    if (!other) continue;
    std::string clash;
    for (const SweepCell& cell : asked) clash = clash.empty() ? Clash(key, cell.key) : clash;
    if (clash.empty()) cells.push_back(*other);
    if (!clash.empty()) ++left_out[clash];
  }
  for (const auto& [setting, count] : left_out)
    Notice(Formatted(
        "{}: {} finished runs that differ in {} are not in the tables; use another --out to keep sweeps separate",
        log.path().string(), count, setting));
}

// Cells of other machines, by their identities as text.
struct Part {
  std::filesystem::path file;
  Json key, result;
};
using Parts = std::map<std::string, Part>;

Parts ReadParts(const std::vector<std::filesystem::path>& folders, const CellReader& reader) {
  Parts parts;
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path file = folder / "cells.jsonl";
    if (!std::filesystem::exists(file)) Fail("{}: no such file; expected finished runs of this sweep", file.string());
    for (const auto& [key, result] : ReadCells(folder, reader)) {
      const auto [twin, added] = parts.try_emplace(IdentityText(key), Part{file, key, result});
      if (!added && twin->second.result != result)
        Fail("{}: {}: got other figures than in {}, expected the same; are the machines of one kind?", file.string(),
             CellText(key), twin->second.file.string());
    }
  }
  return parts;
}

// Cells of different sweeps do not merge.
void RequireAsked(const Parts& parts, const std::vector<Json>& asked) {
  std::set<std::string> identities;
  for (const Json& key : asked) identities.insert(IdentityText(key));
  for (const auto& [identity, part] : parts) {
    if (identities.contains(identity)) continue;
    std::string clash;
    for (const Json& key : asked) clash = clash.empty() ? Clash(part.key, key) : clash;
    Fail("{}: {}: got a run of another {}, expected runs of this sweep; try the options that it was made with",
         part.file.string(), CellText(part.key), clash.empty() ? "model, plan or task" : clash);
  }
}

// A cell of a model that will run, or has run.
struct PlannedCell {
  std::shared_ptr<const Task> task;
  const Plan* plan = nullptr;
  Json key;
};

// All cells of this model, in the order of the list.
std::vector<PlannedCell> CellsOfModel(const Model& model, const std::vector<Plan>& plans, const Seen& seen,
                                      const SweepOptions& options) {
  const std::string weights_hash = model.folder() == options.source ? seen.of_source : model.files().ContentHash();
  std::vector<PlannedCell> cells;
  for (Task& read : ReadTasks(
           options.tasks, model,
           {.windows = options.windows, .reference = options.source, .other_tower = {}, .answers = options.answers})) {
    const auto task = std::make_shared<const Task>(std::move(read));
    for (const Plan& plan : plans)
      cells.push_back({task, &plan, KeyOf(model, weights_hash, plan, seen, *task, options)});
  }
  return cells;
}

// Whether the passes of b, which compares the same file, give a too.
bool Gives(const TaskSpec& a, const TaskSpec& b) { return a.kind->compared == b.kind && a.file == b.file; }

bool RunTogether(const PlannedCell& a, const PlannedCell& b) {
  return a.plan == b.plan && Gives(a.task->spec, b.task->spec);
}

// The cells in the order in which they run: each alone, or before the one whose passes give both.
std::vector<std::vector<const PlannedCell*>> InRunOrder(const std::vector<PlannedCell>& cells) {
  std::vector<std::vector<const PlannedCell*>> order;
  for (const PlannedCell& cell : cells) {
    if (std::ranges::any_of(cells, [&](const PlannedCell& other) { return RunTogether(other, cell); })) continue;
    order.push_back({&cell});
    const auto with = std::ranges::find_if(cells, [&](const PlannedCell& other) { return RunTogether(cell, other); });
    if (with != cells.end()) order.back().push_back(&*with);
  }
  return order;
}

bool IsAsked(const SweepOptions& options, size_t number) {
  return !options.only || (options.only->first <= number && number <= options.only->second);
}

// Runs from cell `first` on. Keys need hashes of weights and are not known yet, so names tell what is finished.
int64_t RunsFrom(size_t first, const std::vector<ListedCell>& cells, const SweepOptions& options, const CellLog& log) {
  std::set<std::string> finished;
  for (const Json& key : log.keys()) finished.insert(CellText(key));
  int64_t runs = 0;
  for (size_t number = first; number < cells.size(); ++number) {
    const bool runs_with_another =
        std::ranges::any_of(options.tasks, [&](const TaskSpec& task) { return Gives(task, *cells[number].task); });
    runs += IsAsked(options, number) && !runs_with_another && !finished.contains(cells[number].name) ? 1 : 0;
  }
  return runs;
}

class ModelSweep {
 public:
  // plans: of the model; first: the number of the model's first cell in the list `all`.
  ModelSweep(const SweepOptions& options, const std::vector<Plan>& plans, const Seen& seen, size_t index, size_t first,
             const std::vector<ListedCell>& all, CellLog& log)
      : options_(options),
        seen_(seen),
        log_(log),
        model_(options.models[index], options.math),
        cells_(CellsOfModel(model_, plans, seen, options)),
        runs_later_(RunsFrom(first + cells_.size(), all, options, log)) {
    for (size_t i = cells_.size(); i-- > 0;) {
      if (!IsAsked(options, first + i)) cells_.erase(cells_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void RunMissing(const CellStarting& starting) {
    std::vector<std::vector<const PlannedCell*>> left = InRunOrder(cells_);
    const int64_t all = std::ssize(left);
    for (auto& together : left)
      std::erase_if(together, [&](const PlannedCell* cell) { return log_.Find(cell->key) != nullptr; });
    std::erase_if(left, [](const auto& together) { return together.empty(); });
    if (options_.says_earlier && std::ssize(left) < all)
      SayContinued(options_.folder.string(),
                   Formatted("{} of {} runs of {}", all - std::ssize(left), all, model_.Name()));
    std::vector<SharingRun> runs;
    for (const auto& together : left) runs.push_back({together.back()->task.get(), together.back()->plan});
    const SharedLayers shared(runs, model_.config().layers);
    for (size_t run = 0; run < left.size(); ++run) {
      // Half of the memory each: an attribution has two plans that others go on from.
      const double streams = KeptStreams::kMost / 2 / (TokensOf(*left[run].back()) * model_.config().StreamWidth());
      kept_.Begin(shared.Of(run, static_cast<int64_t>(streams)));
      const int64_t after = std::ssize(left) - static_cast<int64_t>(run) - 1;
      RunOne(left[run], starting(CellText(left[run].front()->key), after + runs_later_));
    }
  }

  // The finished cells, in the order of the list.
  std::vector<SweepCell> Finished() const {
    std::vector<SweepCell> finished;
    for (const PlannedCell& cell : cells_) finished.push_back(CellOf(cell.key, log_, options_.tasks).value());
    return finished;
  }

 private:
  double TokensOf(const PlannedCell& cell) {
    const PlanRun run(*cell.plan, options_.carrying, ModelSitesOf(model_), seen_.source, options_.cache);
    return static_cast<double>(cell.task->run.TokensUnder(run));
  }

  void RunOne(const std::vector<const PlannedCell*>& together, const Progress& progress) {
    PlanRun run(*together.back()->plan, options_.carrying, ModelSitesOf(model_), seen_.source, options_.cache);
    run.Share(&kept_);
    TaskResult result = together.back()->task->run(model_, run, progress);
    const Json bits = ToJson(run.TakeKeyValueBits());
    if (together.size() == 2) {
      if (result.of_text.is_null()) result.of_text = together.front()->task->run(model_, run, progress).figures;
      result.of_text.update(bits);
      log_.Append(together.front()->key, result.of_text);
    }
    result.figures.update(bits);
    log_.Append(together.back()->key, result.figures);
  }

  const SweepOptions& options_;
  const Seen& seen_;
  CellLog& log_;
  Model model_;
  std::vector<PlannedCell> cells_;
  int64_t runs_later_;  // of later models
  KeptStreams kept_;
};

}  // namespace

std::vector<std::string> ListCells(const SweepOptions& options) {
  std::vector<std::string> list;
  for (const ListedCell& cell : CellsOfAll(options, PlansFor(options))) {
    list.push_back(cell.name);
    std::ranges::replace(list.back(), '\n', ' ');
  }
  return list;
}

std::vector<SweepCell> RunSweep(const SweepOptions& options, const CellStarting& starting) {
  const std::vector<std::vector<Plan>> plans = PlansFor(options);
  const std::vector<Seen> seen = CheckOptions(options, plans);
  const std::vector<ListedCell> all = CellsOfAll(options, plans);
  if (options.only && options.only->second >= all.size())
    FailUsage("--cells: got {}-{}, expected numbers from 0 to {}; see --list", options.only->first,
              options.only->second, all.size() - 1);
  CellLog log(options.folder, {options.study, options.tasks});
  std::vector<SweepCell> cells;
  size_t first = 0;
  for (size_t i = 0; i < options.models.size(); ++i) {
    ModelSweep sweep(options, plans[i], seen[i], i, first, all, log);
    first += options.tasks.size() * plans[i].size();
    sweep.RunMissing(starting);
    std::ranges::copy(sweep.Finished(), std::back_inserter(cells));
  }
  AddOthers(log, options.tasks, cells);
  return cells;
}

void MergeSweep(const SweepOptions& options, const std::vector<std::filesystem::path>& parts) {
  const std::vector<std::vector<Plan>> plans = PlansFor(options);
  const std::vector<Seen> seen = CheckOptions(options, plans);
  const Parts finished = ReadParts(parts, {options.study, options.tasks});
  std::vector<Json> asked, in_run_order;
  for (size_t i = 0; i < options.models.size(); ++i) {
    const Model model(options.models[i], options.math);
    const std::vector<PlannedCell> planned = CellsOfModel(model, plans[i], seen[i], options);
    for (const PlannedCell& cell : planned) asked.push_back(cell.key);
    for (const auto& together : InRunOrder(planned)) {
      for (const PlannedCell* cell : together) in_run_order.push_back(cell->key);
    }
  }
  RequireAsked(finished, asked);
  CellLog log(options.folder, {options.study, options.tasks});
  std::vector<size_t> missing;
  for (size_t n = 0; n < asked.size(); ++n) {
    if (log.Find(asked[n]) == nullptr && !finished.contains(IdentityText(asked[n]))) missing.push_back(n);
  }
  if (!missing.empty())
    Fail("got {} of {} runs, expected all; missing: {}; try tare sweep --cells with these",
         asked.size() - missing.size(), asked.size(), RangesText(missing));
  for (const Json& key : in_run_order) {
    if (log.Find(key) == nullptr) log.Append(key, finished.at(IdentityText(key)).result);
  }
}

}  // namespace tare
