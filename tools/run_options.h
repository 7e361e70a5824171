// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that run a text or ids through a model.
#pragma once

#include "experiments/model/plan_run.h"
#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/passes/sequences.h"
#include "experiments/tasks/task.h"
#include "tools/command.h"

#include <ranges>

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

// What CLI11 cannot check where words may stand for a MODEL: options that need or exclude others. Thrown in its words.
inline void Need(const CLI::App& command, std::initializer_list<const char*> given, const char* needed) {
  for (const char* option : given) {
    if (command.count(option) > 0) throw CLI::RequiresError(option, needed);
  }
}
inline void Exclude(const CLI::App& command, const char* by, std::initializer_list<const char*> others) {
  for (const char* option : others) {
    if (command.count(option) > 0) throw CLI::ExcludesError(by, option);
  }
}

// Arrays that another program captured, in the place of a MODEL and its --input, which the command does not require.
struct CapturedOptions {
  std::vector<std::string> files;
  std::string axes, name;

  // A group of its own; arrays: which ones, for the help.
  void AddTo(CLI::App& command, const std::string& arrays) {
    Group(command, "Arrays that another program captured");
    Add(command, "--tensors FILE", files, "instead of MODEL: .safetensors, .h5 or .npz with " + arrays);
    Add(command, "--axes FILE", axes, "JSON with other names, axes and masks of the arrays");
    Add(command, "--name NAME", name, "the model's, in tables (default: the first file's)");
  }

  void Check(const CLI::App& command) const {
    if (!files.empty())
      return Exclude(command, "--tensors", {"MODEL", "--input", "--window", "--limit", "--tokens", "--from", "--math"});
    Need(command, {"--axes", "--name"}, "--tensors");
    for (const char* option : {"MODEL", "--input"}) {
      if (command.count(option) == 0) throw CLI::RequiredError(option);
    }
  }

  // Says which arrays are left out, and completes the name.
  CapturedInput Load() {
    if (name.empty()) name = std::filesystem::path(files.front()).stem().string();
    CapturedInput input = LoadCaptured({files.begin(), files.end()}, CapturedLayout::Load(axes));
    constexpr size_t kShown = 5;
    const std::vector<std::string>& skipped = input.left_over;
    if (!skipped.empty())
      Notice("skipped, no matching site: " + Listed(skipped | std::views::take(kShown), ", ") +
             (skipped.size() > kShown ? Formatted(" and {} more", skipped.size() - kShown) : ""));
    return input;
  }
};

}  // namespace tare
