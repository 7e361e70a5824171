// SPDX-License-Identifier: Apache-2.0
// Parts of findings. Each finding is one plain sentence, with subject, verb, figure and, where one is known, interval:
//
//   With 4 bits for attn_logits and one scale per tensor, m's perplexity on heldout rises by 1.69 [1.49, 1.90], from
//   29.33 to 31.02.
#pragma once

#include <optional>
#include <string>

#include "experiments/significance/accuracy.h"
#include "experiments/studies/sweep/comparison.h"
#include "quant/file/json_value.h"

namespace tare {

// "accuracy" of "acc"; a figure without words of its own keeps its name.
std::string WordsFor(const std::string& figure);
// "perplexity on heldout", "accuracy on needles-4": a figure of the task "perplexity:heldout", "choice:needles-4".
std::string FigureOnText(const std::string& task, const std::string& figure);

// A figure that a plan changed, as sentences need it.
struct Move {
  std::string task, figure;
  double value = 0, change = 0;  // after the change, and its size
  std::optional<Interval> interval;
};
Move MoveOf(const SweepFigure& row);
// "rises by 1.69 [1.49, 1.90], from 29.33 to 31.02"; "stays at 22.000" where nothing changed.
std::string MoveText(const Move& move);

// "With 4 bits for attn_logits and one scale per tensor", "Executed with ..."; a plan of several rules is itself named.
std::string PlanWords(const SweepCell& cell);

// "b loses 0.28 [0.15, 0.41] more perplexity on heldout than a" of a row with a difference of drops.
std::string MoreText(const SweepFigure& row);

// "+1.69 [+1.49, +1.90]" of {"value", "low", "high"}, whose ends may be null, in the figure's format.
std::string SignedText(const std::string& task, const std::string& figure, const nlohmann::ordered_json& change);

// "6.00 +/- 0.50", or "6" where the error is NaN.
std::string EstimateText(double value, double error);

// "1 token", "2 to 3 tokens" of {"first", "last"}.
std::string ContextText(const nlohmann::ordered_json& range);

// "token 2", "tokens 2 to 3".
std::string RangeText(int64_t first, int64_t last, const std::string& noun);

// "m under q=int4/token with cache keep=h2o/64 (executed)" of a tare.eval/1; "m" of the model without a plan.
std::string EvaluatedText(const nlohmann::ordered_json& evaluation);

}  // namespace tare
