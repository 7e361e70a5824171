// SPDX-License-Identifier: Apache-2.0
// Cells of a sweep made by hand, and a sweep of golden checkpoints.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/studies/sweep/sweep.h"
#include "experiments/tasks/choice.h"
#include "experiments/tasks/perplexity.h"
#include "tests/support/golden.h"

namespace tare {

// Two models, three widths and two granularities, over the folder's ids.safetensors, to its folder out.
inline SweepOptions GoldenSweep(const std::filesystem::path& folder) {
  return {.models = {GoldenFolder("llama-old-config"), GoldenFolder("diffllama-mha")},
          .question = {.bits = {16, 8, 4}, .granularities = {"row", "tensor"}},
          .tasks = ParseTasks("perplexity=" + (folder / "ids.safetensors").string()),
          .folder = folder / "out"};
}

inline SweepCell Cell(const char* model, const char* task, const std::string& plan,
                      const nlohmann::ordered_json& result, const TaskKind& kind) {
  return {.model = model,
          .task = task,
          .kind = &kind,
          .row = RowOf(Plan::Parse(plan)),
          .key = nlohmann::ordered_json{{"plan", plan}},
          .result = result,
          .figures = ReadFigures(result, kind).value()};
}

// A cell whose mean loss is taken over windows of ten tokens; without windows it is 3.
inline SweepCell Perplexity(const char* model, const std::string& plan, double perplexity,
                            std::vector<double> losses = {}) {
  nlohmann::ordered_json result{{"nll", 3.0}, {"perplexity", perplexity}, {"tokens", 99}, {"nll_stderr", 0.5}};
  if (!losses.empty()) result.update({{"window_losses", losses}, {"window_tokens", std::vector(losses.size(), 10)}});
  return Cell(model, "perplexity:t", plan, result, kPerplexityTask);
}

inline SweepCell Choice(const std::string& plan, const std::string& outcomes, const std::string& outcomes_norm,
                        const char* model = "m") {
  const auto mean = [](std::string_view text) {
    return static_cast<double>(std::ranges::count(text, '1')) / static_cast<double>(text.size());
  };
  return Cell(model, "choice:c", plan,
              {{"n", outcomes.size()},
               {"acc", mean(outcomes)},
               {"acc_stderr", 0.25},
               {"acc_norm", mean(outcomes_norm)},
               {"acc_norm_stderr", 0.125},
               {"outcomes", outcomes},
               {"outcomes_norm", outcomes_norm}},
              kChoiceTask);
}

inline std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::string Times(int n, const char* text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

}  // namespace tare
