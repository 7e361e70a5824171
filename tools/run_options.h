// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that run a text or ids through a model.
#pragma once

#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"
#include "tools/command.h"

namespace tare {

inline void AddWindowOptions(CLI::App& command, WindowOptions& windows) {
  command
      .add_option("--window", windows.window,
                  "positions of a window, <s> among them (0: 512 of a text, whole rows of ids)")
      ->check(WholeNumber(0))
      ->capture_default_str();
  command.add_option("--tokens", windows.tokens, "only the first so many tokens of the text (0: all)")
      ->check(WholeNumber(0));
  command.add_option("--limit", windows.limit, "at most so many windows of a text and items of a set (0: all)")
      ->check(WholeNumber(0));
}

inline void AddExecutedFlag(CLI::App& command, Carrying& carrying) {
  command.add_flag_callback(
      "--executed", [&carrying] { carrying = Carrying::kExecuted; },
      "run the plan on integer kernels (linear layers: weights, linear_in; attention: q, k, v, probs or difference, "
      "attn_logits) instead of simulating it");
}

inline void AddStrideOption(CLI::App& command, WindowOptions& windows) {
  command
      .add_option(
          "--stride", windows.stride,
          "tokens that windows advance by (0: no overlap). A token is scored once, by the first window that holds "
          "it; the last window is moved back so that it is full")
      ->check(WholeNumber(0))
      ->capture_default_str();
}

}  // namespace tare
