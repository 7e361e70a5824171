// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/task.h"

#include <format>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

TaskSpec ParseTask(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string kind = text.substr(0, equals);
  if (kind != "perplexity" && kind != "choice")
    Fail("--tasks: got '{}', expected perplexity=TEXT or choice=ITEMS.jsonl", text);
  if (equals == std::string::npos || equals + 1 == text.size())
    Fail("--tasks: '{}' names no file; expected {}=FILE", text, kind);
  TaskSpec spec{kind == "choice" ? TaskSpec::Kind::kChoice : TaskSpec::Kind::kPerplexity, text.substr(equals + 1)};
  if (!std::filesystem::is_regular_file(spec.file)) Fail("--tasks: {}: no such file", spec.file.string());
  RequireUtf8(spec.Name(), "--tasks: " + text + ": the file's name");
  return spec;
}

Json Figures(const PerplexityResult& r) {
  return {{"nll", r.nll},
          {"perplexity", r.perplexity},
          {"tokens", r.tokens},
          {"nll_stderr", r.nll_stderr},
          {"windows", r.windows}};
}

// Outcomes of the items in order, '1' where right: what paired comparisons of two runs need.
Json Figures(const ChoiceResult& r) {
  std::string outcomes, outcomes_norm;
  for (const ChoiceRecord& record : r.records) {
    outcomes += record.Correct() ? '1' : '0';
    outcomes_norm += record.CorrectNorm() ? '1' : '0';
  }
  return {{"n", r.n},
          {"acc", r.acc},
          {"acc_stderr", r.acc_stderr},
          {"acc_norm", r.acc_norm},
          {"acc_norm_stderr", r.acc_norm_stderr},
          {"outcomes", outcomes},
          {"outcomes_norm", outcomes_norm}};
}

}  // namespace

std::string TaskSpec::Name() const {
  return (kind == Kind::kChoice ? "choice:" : "perplexity:") + file.stem().string();
}

std::vector<TaskSpec> ParseTasks(std::string_view text) {
  std::vector<TaskSpec> specs;
  std::set<std::string> names;
  std::stringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, ',');) {
    specs.push_back(ParseTask(part));
    if (!names.insert(specs.back().Name()).second)
      Fail("--tasks: two tasks are called {}; try renaming a file", specs.back().Name());
  }
  if (specs.empty()) Fail("--tasks: got nothing, expected perplexity=TEXT or choice=ITEMS.jsonl, with commas between");
  return specs;
}

Task::Task(const TaskSpec& spec, const Model& model, const WindowOptions& windows)
    : spec_(spec), sha256_(Sha256OfFile(spec.file)) {
  if (spec.kind == TaskSpec::Kind::kPerplexity) {
    sequences_ =
        CutSequences(LoadTokenInput(spec.file, model.folder(), model.config().vocabulary), model.config(), windows);
    return;
  }
  tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::Load(model.folder()));
  bos_ = tokenizer_->bos();
  items_ = LoadChoiceItems(spec.file, static_cast<size_t>(windows.limit));
}

TaskResult Task::Run(Model& model, PlanRun& run, const Progress& progress) const {
  const SiteVisitors visitors = run.Begin(model);
  if (spec_.kind == TaskSpec::Kind::kPerplexity) return MeasurePerplexity(model, visitors, sequences_, progress);
  const ContextSharing sharing = run.SpansRows() ? ContextSharing::kForbidden : ContextSharing::kAllowed;
  return MeasureChoice(model, visitors, sharing, items_, *tokenizer_, bos_, progress);
}

Json ToJson(const TaskResult& result) {
  return std::visit([](const auto& r) { return Figures(r); }, result);
}

Json ToJson(const std::string& task, const ChoiceRecord& r) {
  return {{"task", task},
          {"line", r.line},
          {"label", r.label},
          {"answer", r.answer},
          {"answer_norm", r.answer_norm},
          {"log_likelihoods", r.log_likelihoods},
          {"characters", r.characters}};
}

Json Convention(const WindowOptions& w) {
  return {{"window", w.window},
          {"stride", w.stride},
          {"tokens", w.tokens},
          {"convention",
           "each token is scored once, by the first window that holds it; text windows begin with <s>; windows advance "
           "by stride tokens (0: all that a window holds, where there is no <s> all but one), the last is moved back "
           "to be full"}};
}

}  // namespace tare
