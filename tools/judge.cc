// SPDX-License-Identifier: Apache-2.0
// tare judge compares other programs' results on a text (predictions, by windows) or a task (lm-evaluation-harness's
// verdicts, by documents) as a sweep does versions. Per token in all files, p of the reference, q another's, in double:
//
//   loss = -ln q(token)       kld = sum over ln p(i) > floor of p(i) (ln p(i) - ln q(i))       (as llama-perplexity)
#include <cmath>

#include "experiments/arrays/array_file.h"
#include "experiments/studies/sweep/comparison.h"
#include "experiments/tasks/choice.h"
#include "experiments/tasks/evaluation.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/perplexity.h"
#include "experiments/text/utf8.h"
#include "quant/base/parallel.h"
#include "tools/command.h"

namespace tare {
namespace {

struct JudgeArguments {
  std::string reference, json, by;
  std::vector<std::string> files;
  int64_t window = 0;
  MachineOptions machine;
};

// The runs, in the order of the files; and of predictions which positions of windows are scored.
struct Judged {
  std::vector<SweepCell> cells;
  Json scored = {};

  void Add(const std::string& file, const std::string& task, const TaskKind& kind, const Json& figures) {
    cells.push_back({.model = file,
                     .task = task,
                     .kind = &kind,
                     .key = {{"plan", "f32"}, {"source", cells.empty() ? file : cells.front().model}},
                     .result = figures,
                     .figures = ReadFigures(figures, kind).value()});
  }
};

constexpr int64_t kHeldRows = 64;  // of each file: 32 MiB of a vocabulary of 128k in f32

template <typename T>
void RequireSame(const std::string& what, const std::string& file, const T& got, const std::string& reference,
                 const T& expected) {
  if (got != expected) Fail("{}: {}: got {}, expected {} as in {}", file, what, got, expected, reference);
}

void RequireSameText(const Predictions& of, const Predictions& reference) {
  const auto same = [&](const std::string& what, int64_t got, int64_t expected) {
    RequireSame(what, of.Name(), got, reference.Name(), expected);
  };
  same("vocabulary", of.vocabulary, reference.vocabulary);
  same("windows", of.windows, reference.windows);
  same("tokens of a window", of.positions, reference.positions);
  for (size_t i = 0; i < of.tokens.size(); ++i) {
    // llama-perplexity writes a window's first token, and runs <s> in its place.
    if (static_cast<int64_t>(i) % of.positions > 0 || of.first + reference.first == 0)
      same(Formatted("token {}", i), of.tokens[i], reference.tokens[i]);
  }
}

TokenDivergence CompareRow(const Predictions& of, const Prediction& q, const Predictions& reference,
                           const Prediction& p, int64_t window, int64_t position) {
  double kld = 0;
  for (size_t i = 0; i < p.values.size(); ++i) {
    if (p.LogP(i) > reference.floor) kld += std::exp(p.LogP(i)) * (p.LogP(i) - q.LogP(i));
  }
  const bool flat = reference.array.shape.size() == 2;  // [T, V] of one text, all of which was seen
  const auto next = static_cast<size_t>(of.tokens[static_cast<size_t>(window * of.positions + position + 1)]);
  return {.kld = kld,
          .reference_loss = -p.LogP(next),
          .loss = -q.LogP(next),
          .same_top = p.top == q.top,
          .context = (flat ? window * of.positions : 0) + position + 1,
          .window = static_cast<size_t>(window)};
}

// In the order of the text, from position `first` of each window on.
std::vector<TokenDivergence> CompareFiles(const Predictions& of, const Predictions& reference, int64_t first) {
  std::vector<TokenDivergence> tokens;
  ProgressLine line(of.Name());
  for (int64_t window = 0; window < of.windows; ++window) {
    for (int64_t begin = first; begin < of.positions - 1; begin += kHeldRows) {
      const int64_t count = std::min(kHeldRows, of.positions - 1 - begin);
      const ArrayValues p = reference.Rows(window, begin, count);
      const std::optional<ArrayValues> q =
          &of == &reference ? std::nullopt : std::optional(of.Rows(window, begin, count));
      const size_t done = tokens.size();
      tokens.resize(done + static_cast<size_t>(count));
      ParallelFor(static_cast<size_t>(count), [&](size_t i, int) {
        const auto row = static_cast<int64_t>(i), position = begin + row;
        const Prediction of_reference = reference.Read(p, row, window, position);
        tokens[done + i] = CompareRow(of, q ? of.Read(*q, row, window, position) : of_reference, reference,
                                      of_reference, window, position);
      });
      line.Callback()(std::ssize(tokens), of.windows * (of.positions - 1 - first), "tokens");
    }
  }
  return tokens;
}

// The first file is the reference.
Judged JudgePredictions(const std::vector<std::string>& files, int64_t window) {
  std::vector<Predictions> all;
  int64_t first = 0;
  for (const std::string& file : files) {
    all.push_back(OpenPredictions(file, window, all.empty() ? nullptr : &all.front()));
    if (window > 0 && all.back().positions != window)
      Fail("{}: tokens of a window: got {}, expected the {} of --window", file, all.back().positions, window);
    RequireSameText(all.back(), all.front());
    first = std::max(first, all.back().first);
  }
  const int64_t tokens = all.front().positions;
  Judged judged{
      .scored = {{"windows", all.front().windows}, {"window", tokens}, {"first", first}, {"last", tokens - 2}}};
  for (const Predictions& of : all) {
    const TaskResult result = DivergenceResult(CompareFiles(of, all.front(), first));
    judged.Add(of.Name(), std::string(kPerplexityTask.name), kPerplexityTask, result.of_text);
    judged.Add(of.Name(), std::string(kDivergenceTask.name), kDivergenceTask, result.figures);
  }
  return judged;
}

// "piqa" of samples_piqa_2026-01-01T00-00-00.000000.jsonl; "" of files that lm-evaluation-harness did not name.
std::string LoggedTask(const std::filesystem::path& path) {
  constexpr std::string_view kBegin = "samples_", kDate = "_20";
  const std::string name = path.stem().string();
  return name.starts_with(kBegin) ? name.substr(kBegin.size(), name.rfind(kDate) - kBegin.size()) : "";
}

// What lm-evaluation-harness logged of a task's documents.
struct Log {
  std::vector<std::string> documents;  // by line: "doc_id 3, doc_hash da86.., .."
  const TaskKind* kind = nullptr;
  Json figures;                                       // of endings
  std::string metrics;                                // of generated answers: "exact_match, f1"
  std::map<std::string, std::vector<double>> scores;  // by metric and filter: "exact_match,strict-match"
};

// A log without a figure of each document that could be paired.
class NotPaired : public Error {
 public:
  using Error::Error;
};

// Without metrics that the harness computes over all documents from pairs or lists ("bleu"), and --predict_only's 999.
void AddScores(const nlohmann::json& json, const std::string& where, const std::string& filter, Log& log) {
  std::string names;
  for (const nlohmann::json& metric : json.value("metrics", nlohmann::json::array())) {
    const std::string name = PlainText(metric);
    const nlohmann::json value = json.value(name, nlohmann::json());
    if (value.is_structured() || name == "bypass") continue;
    const double score = LoggedNumber(value).value_or(NAN);
    if (!std::isfinite(score))
      Fail("{}: \"{}\": got {}, expected a finite score, as it is one of \"metrics\"", where, name, value.dump());
    log.scores[name + "," + filter].push_back(score);
    names += (names.empty() ? "" : ", ") + name;
  }
  if (names.empty())
    throw NotPaired(where +
                    ": got no \"metrics\" with a score of each document, expected some, as lm_eval logs them "
                    "without --predict_only");
  if (log.metrics.empty()) log.metrics = names;
  RequireSame("metrics", where, names, "the first line", log.metrics);
}

Log ReadLog(const std::string& path) {
  Log log;
  std::map<std::string, size_t> lines;  // of the documents
  std::vector<ChoiceItem> items;
  EndingScores scores;
  ForEachLine(path, 0, TakeFrom::kStart, [&](const JsonLine& line) {
    const nlohmann::json json = ParseObject(line.text, line.where, "doc, arguments, target and filtered_resps");
    if (!IsHarnessLog(json)) Fail("{}: got no doc, arguments and target, expected a line of --log_samples", line.where);
    static const nlohmann::json::json_pointer kGeneration("/arguments/gen_args_0/arg_1");
    const bool answer = json.contains(kGeneration) && json[kGeneration].is_object();
    const std::vector<std::vector<std::string>> requests =
        answer ? std::vector<std::vector<std::string>>() : LoggedArguments(json, line.where);
    if (requests.size() == 1 && requests[0].size() == 1)
      throw NotPaired(line.where + ": got the log-likelihood of a whole text, expected one of endings or answers");
    const TaskKind& kind = answer ? kMetricTask : requests.size() > 1 ? kChoiceTask : kLogLikelihoodTask;
    if (log.kind == nullptr) log.kind = &kind;
    RequireSame("task", line.where, kind.name, path, log.kind->name);
    const auto text = [&](const char* key) { return json.contains(key) ? PlainText(json[key]) : "none"; };
    log.documents.push_back(Formatted("doc_id {}, doc_hash {}, prompt_hash {}, target {}, filter {}", text("doc_id"),
                                      text("doc_hash"), text("prompt_hash"), text("target"), text("filter")));
    if (const auto [first, is_new] = lines.emplace(log.documents.back(), line.number); !is_new)
      Fail("{}: got {} as in line {}, expected it once", line.where, first->first, first->second);
    if (&kind == &kMetricTask) return AddScores(json, line.where, text("filter"), log);
    items.push_back((&kind == &kChoiceTask ? ParseChoiceItem : ParseContinuation)(line.text, line.where));
    items.back().line = line.number;
    std::vector<ScoredEnding>& of_item = scores.emplace_back();
    for (const auto& [log_likelihood, greedy] : LoggedScores(json, items.back().endings.size()))
      of_item.push_back({log_likelihood, CountCharacters(items.back().endings[of_item.size()]), greedy});
    if (of_item.empty() || !std::ranges::all_of(of_item, [](const auto& s) { return std::isfinite(s.log_likelihood); }))
      Fail("{}: \"filtered_resps\": got {}, expected finite log-likelihoods of {}", line.where, text("filtered_resps"),
           Counted(std::ssize(items.back().endings), "ending"));
  });
  if (log.kind == &kMetricTask) return log;
  log.figures = (log.kind == &kChoiceTask ? Accuracies : LogLikelihoods)(items, scores).figures;
  if (log.kind == &kChoiceTask) log.figures["reported"] = ReportedAccuracy(items);
  return log;
}

// Logs of the same documents, one of each model.
std::vector<Log> ReadLogs(const std::string& task, const std::vector<std::string>& files) {
  std::vector<Log> logs;
  for (const std::string& file : files) {
    const Log &log = logs.emplace_back(ReadLog(file)), &reference = logs.front();
    const auto same = [&](const std::string& what, const auto& got, const auto& expected) {
      RequireSame(what, file, got, files[0], expected);
    };
    if (const std::string own = LoggedTask(file); !own.empty() && !task.empty()) same("task", own, task);
    same("task", log.kind->name, reference.kind->name);
    same("metrics", log.metrics, reference.metrics);
    same("lines", log.documents.size(), reference.documents.size());
    for (size_t i = 0; i < log.documents.size(); ++i)
      same(Formatted("line {}", i + 1), log.documents[i], reference.documents[i]);
  }
  return logs;
}

// Logs by task, one per model: tasks that all folders have, with the newest file of each (the harness adds one a run).
std::map<std::string, std::vector<std::string>> PairedLogs(const std::vector<std::string>& models) {
  if (!std::filesystem::is_directory(models[0])) return {{LoggedTask(models[0]), models}};
  std::map<std::string, std::vector<std::string>> logs;
  for (size_t i = 0; i < models.size(); ++i) {
    if (!std::filesystem::is_directory(models[i]))
      Fail("{}: got no folder, expected one as {} is; try comparing folders with folders", models[i], models[0]);
    for (const auto& entry : std::filesystem::directory_iterator(models[i])) {
      const std::string file = entry.path().string(), task = LoggedTask(file);
      if (task.empty() || !file.ends_with(".jsonl")) continue;
      logs[task].resize(models.size());
      std::string& newest = logs[task][i];
      if (!newest.empty())
        Notice(Formatted("{}: left out, as {} is newer", std::min(newest, file), std::max(newest, file)));
      newest = std::max(newest, file);
    }
  }
  std::erase_if(logs, [&](const auto& of_task) {
    const auto missing = std::ranges::find(of_task.second, "") - of_task.second.begin();
    if (missing == std::ssize(models)) return false;
    Notice(Formatted("{}: left out, as {} has no samples of it", of_task.first, models[static_cast<size_t>(missing)]));
    return true;
  });
  if (logs.empty())
    Fail(
        "{}: got no samples_TASK_DATE.jsonl of a task of all, expected folders into which lm_eval --log_samples wrote "
        "them, OUTPUT_PATH/MODEL",
        Listed(models, ", "));
  return logs;
}

Judged JudgeLogs(const std::vector<std::string>& models) {
  Judged judged;
  const bool folders = std::filesystem::is_directory(models[0]);
  for (const auto& [task, files] : PairedLogs(models)) {
    std::vector<Log> logs;
    try {
      logs = ReadLogs(task, files);
    } catch (const NotPaired& error) {
      if (!folders) throw;
      Notice(Formatted("{}: left out: {}", task, error.what()));
      continue;
    }
    const auto add = [&](const std::string& name, auto figures_of) {
      for (size_t i = 0; i < models.size(); ++i)
        judged.Add(models[i], Formatted("{}:{}", logs[i].kind->name, name), *logs[i].kind, figures_of(i));
    };
    if (logs.front().scores.empty()) add(task, [&](size_t i) { return logs[i].figures; });
    for (const auto& [metric, unused] : logs.front().scores) {
      std::vector<std::vector<double>> scores;
      for (const Log& log : logs) scores.push_back(log.scores.at(metric));
      add(task.empty() ? metric : task + "/" + metric,
          [figures = ScoreFigures(scores)](size_t i) { return figures[i]; });
    }
  }
  if (judged.cells.empty()) Fail("{}: got no task that can be paired, expected one", models[0]);
  return judged;
}

std::string PositionTables(const Judged& judged) {
  std::string text;
  for (const SweepCell& cell : judged.cells)
    text += Formatted("\n{}, {}\n", cell.model, cell.task) + PositionTable(cell.result.at(cell.kind->by_position));
  return text;
}

void Run(const CLI::App& command, JudgeArguments& options) {
  std::vector<std::string> files{options.reference};
  files.insert(files.end(), options.files.begin(), options.files.end());
  const std::vector<AtomicFile> claims = ClaimFiles(files, {{options.json, JsonWith("tare.judge/")}});
  options.machine.Apply();
  const bool logs = std::filesystem::is_directory(options.reference) || options.reference.ends_with(".jsonl") ||
                    Beginning(options.reference, 1) == "{";
  RequireEffect(command, !logs, {"--window", "--by"}, "logits of a text: " + options.reference + " has verdicts");
  const Judged judged = logs ? JudgeLogs(files) : JudgePredictions(files, options.window);
  const Comparisons comparisons = CompareCells(judged.cells);
  if (PrintsTables(options.json)) {
    PrintText("{}{}\n{}", SweepTable(judged.cells, comparisons), options.by.empty() ? "" : PositionTables(judged),
              SweepLegend(comparisons));
    if (const Json& s = judged.scored; !logs)
      PrintLine("scored: tokens after {} to {} others in each of {} of {}", s["first"].get<int64_t>() + 1,
                s["last"].get<int64_t>() + 1, Counted(s["windows"], "window"), s["window"].dump());
  }
  Json json = SweepJson(judged.cells, comparisons);
  json["schema"] = "tare.judge/1";
  if (!logs) json["scored"] = judged.scored;
  for (Json& cell : json["cells"]) cell.erase("bits");  // which other programs do not tell
  WriteJson(options.json, json);
}

}  // namespace

void AddJudge(CLI::App& app) {
  const auto [command, options] = NewCommand<JudgeArguments>(app, "judge", "compare outputs of other programs", Run);
  Add(command, "REFERENCE", options.reference,
      "base file of llama-perplexity, logits (.npz, .npy, .h5, .safetensors), or samples_*.jsonl of "
      "lm-evaluation-harness, or a folder of these")
      ->required();
  Add(command, "FILE", options.files, "others of the same text, in any of these forms, or of the same task")
      ->required();
  AddWhole(command, "--window N", options.window, "tokens per window of logits [T,V]; 0: the reference's, else all", 0);
  Add(command, "--by position", options.by, "also figures by the number of tokens before")->check(OneOf("position"));
  AddJson(command, options.json);
  options.machine.AddThreadsTo(command);
  AddQuiet(command);
}

}  // namespace tare
