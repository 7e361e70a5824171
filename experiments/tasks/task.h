// SPDX-License-Identifier: Apache-2.0
// A task as the command line names it, `perplexity=heldout.txt` or `choice=needles-4.jsonl`, run on a model under a
// plan. In results it is called after its file: `perplexity:heldout`, `choice:needles-4`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "experiments/sites/plan_run.h"
#include "experiments/tasks/choice.h"
#include "experiments/tasks/perplexity.h"

namespace tare {

struct TaskSpec {
  enum class Kind { kPerplexity, kChoice };
  Kind kind = Kind::kPerplexity;
  std::filesystem::path file;

  std::string Name() const;  // "choice:needles-4"
};

// Comma-separated tasks. Throws Error for an unknown kind, a missing file, or two tasks of one name.
std::vector<TaskSpec> ParseTasks(std::string_view text);

using TaskResult = std::variant<PerplexityResult, ChoiceResult>;

// A task's input, read and tokenized once and run under many plans. `limit` counts windows or items.
class Task {
 public:
  Task(const TaskSpec& spec, const Model& model, const WindowOptions& windows);

  TaskResult Run(Model& model, PlanRun& run, const Progress& progress) const;
  const TaskSpec& spec() const { return spec_; }
  const std::string& sha256() const { return sha256_; }  // of the input file

 private:
  TaskSpec spec_;
  std::string sha256_;
  std::vector<ScoredSequence> sequences_;  // perplexity
  std::vector<ChoiceItem> items_;          // choice
  std::unique_ptr<Tokenizer> tokenizer_;   // choice
  std::optional<int32_t> bos_;
};

// The figures of one task, as tare.eval/1 has them; records of choice items are left out.
nlohmann::ordered_json ToJson(const TaskResult& result);
// One line an item: {"task","line","label","answer","answer_norm","log_likelihoods","characters"}.
nlohmann::ordered_json ToJson(const std::string& task, const ChoiceRecord& record);

// What stands in every result about how perplexity was taken.
nlohmann::ordered_json Convention(const WindowOptions& windows);

}  // namespace tare
