// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that run a text or ids through a model.
#pragma once

#include "experiments/model/plan_run.h"
#include "experiments/passes/convention_windows.h"
#include "experiments/passes/sequences.h"
#include "experiments/tasks/task.h"
#include "tools/command.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tare {

inline void AddWindowOptions(CLI::App& command, WindowOptions& windows) {
  AddWhole(command, "--window", windows.window,
           "positions per window, including <s> (0: 512 for a text, whole rows for ids)", 0);
  command
      .add_option("--tokens", windows.tokens, "use only as many windows as this many tokens of the text fill (0: all)")
      ->check(WholeNumber(0))
      ->default_str(windows.tokens > 0 ? std::to_string(windows.tokens) : "");
  command.add_option("--limit", windows.limit, "use at most this many windows of a text or items of a set (0: all)")
      ->check(WholeNumber(0));
  command
      .add_option_function<std::string>(
          "--from",
          [&windows](const std::string& from) {
            windows.from = from == "start" ? TakeFrom::kStart : TakeFrom::kSpread;
          },
          "of --tokens and --limit: spread (windows at even distances over the text, items drawn from equal parts of "
          "the file) or start (the first)")
      ->check(CLI::IsMember({"spread", "start"}))
      ->default_str(std::string(Name(windows.from)));
  command.parse_complete_callback([&command] {
    RequireEffect(command, command.count("--tokens") + command.count("--limit") > 0, {"--from"}, "--tokens or --limit");
  });
}

inline void AddShortContextOption(CLI::App& command, WindowOptions& windows) {
  AddWhole(command, "--short-context", windows.short_context,
           "tokens that longppl compares a whole window with (0: 4096, as its paper has it)", 0);
}

inline void AddConventionOption(CLI::App& command, WindowOptions& windows) {
  command
      .add_option_function<std::string>(
          "--convention", [&windows](const std::string& name) { windows.convention = ConventionNamed(name); },
          "whose rules cut a text and score it: tare; llama.cpp (the second half of each window); lm-eval (each "
          "token once, a document's first one too)")
      ->type_name("NAME");
}

inline void AddCacheOption(CLI::App& command, std::optional<CachePlan>& cache, const std::string& what) {
  command.add_option_function<std::string>(
      "--cache", [&cache](const std::string& text) { cache = ParseCachePlan(text); }, what);
}

inline void AddExecutedFlag(CLI::App& command, Carrying& carrying) {
  command.add_flag_callback(
      "--executed", [&carrying] { carrying = Carrying::kExecuted; },
      "run the plan on integer kernels (linear layers: weights, linear_in; attention: q, k, v, probs or difference, "
      "attn_logits) instead of simulating it");
}

inline void AddAnswerOptions(CLI::App& command, AnswerOptions& answers) {
  AddWhole(command, "--max-tokens", answers.tokens,
           "for generate: tokens of an answer at most (0: what its item says, else 128)", 0);
  command.add_option("--temperature", answers.temperature,
                     "for generate: 0 takes the most likely token (default: the item's own, else 0)");
  command.add_option("--top-p", answers.top_p,
                     "for generate: draw from the most likely tokens that together have this probability");
  command.add_option("--sampling-seed", answers.seed, "for generate: seed of the draws, one of its own for each item")
      ->capture_default_str();
}

inline void AddStrideOption(CLI::App& command, WindowOptions& windows) {
  AddWhole(command, "--stride", windows.stride,
           "tokens between the starts of windows (0: no overlap). Each token is scored once, by the first "
           "window that contains it; the last window is moved back to be full",
           0);
}

}  // namespace tare
