// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that run a text or ids through a model.
#pragma once

#include "experiments/model/plan_run.h"
#include "experiments/passes/convention_windows.h"
#include "experiments/passes/sequences.h"
#include "experiments/tasks/task.h"
#include "tools/command.h"

#include <string>

namespace tare {

inline void AddExecutedFlag(CLI::App& command, Carrying& carrying) {
  command.add_flag_callback(
      "--executed", [&carrying] { carrying = Carrying::kExecuted; }, "run on integer kernels, not simulated");
}

inline void AddPlanAndHow(CLI::App& command, std::string& plan, Carrying& carrying, std::string& statistics) {
  AddPlanOption(command, plan, "what to quantize, e.g. attn_logits=int6/row (tare help plan); default: nothing");
  AddExecutedFlag(command, carrying);
  AddStatistics(command, statistics);
}

inline void AddTasksOption(CLI::App& command, std::string& tasks) {
  Add(command, "--tasks NAME=FILE,...", tasks, "e.g. perplexity=text.txt (tare help tasks)")->required();
}

inline void AddCacheOption(CLI::App& command, std::optional<CachePlan>& cache) {
  const auto parse = [&cache](const std::string& text) { cache = ParseCachePlan(text); };
  Add(command, "--cache RULES", parse, "decode with KV caches (tare help cache)");
}

// A group of its own.
inline void AddWindowOptions(CLI::App& command, WindowOptions& windows) {
  Group(command, "Which part of the texts");
  AddWhole(command, "--window N", windows.window, "positions per window, with <s>; IDs: whole rows", 0)
      ->default_str(std::to_string(kTextWindow));
  AddWhole(command, "--tokens N", windows.tokens, "tokens to use, in whole windows; 0: all", 0);
  AddWhole(command, "--limit N", windows.limit, "windows or items to use at most; 0: all", 0);
  Add(command, "--from spread|start", windows.from, "which ones: spread evenly, or the first");
  command.parse_complete_callback([&command] {
    RequireEffect(command, command.count("--tokens") + command.count("--limit") > 0, {"--from"}, "--tokens or --limit");
  });
}

inline void AddStrideOption(CLI::App& command, WindowOptions& windows) {
  AddWhole(command, "--stride N", windows.stride, "tokens from one window's start to the next; 0: no overlap", 0);
}

// The group kOfTasks.
inline void AddOptionsOfTasks(CLI::App& command, WindowOptions& windows, AnswerOptions& answers) {
  Group(command, kOfTasks);
  const auto convention = [&windows](const std::string& name) { windows.convention = ConventionNamed(name); };
  Add(command, "--convention NAME", convention, "texts: whose windows and scores: " + ConventionNames())
      ->default_str("tare");
  AddWhole(command, "--short-context N", windows.short_context, "longppl: tokens that whole windows are compared with",
           0)
      ->default_str("4096");
  AddWhole(command, "--max-tokens N", answers.tokens, "generate: tokens per answer; 0: the item's own, else 128", 0);
  Add(command, "--temperature X", answers.temperature,
      "generate: 0 takes the most likely token (default: the item's own, else 0)");
  Add(command, "--top-p X", answers.top_p, "generate: draw from the likeliest tokens of this total probability");
  Add(command, "--sampling-seed N", answers.seed, "generate: seed of the draws, which differ by item")
      ->capture_default_str();
}

}  // namespace tare
