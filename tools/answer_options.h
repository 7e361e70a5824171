// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands whose tasks may generate answers.
#pragma once

#include "experiments/tasks/task.h"
#include "tools/command.h"

namespace tare {

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

}  // namespace tare
