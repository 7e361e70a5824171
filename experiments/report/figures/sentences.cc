// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/sentences.h"

#include <cmath>
#include <map>

#include "experiments/report/figures/figures.h"
#include "experiments/significance/shown.h"
#include "experiments/tasks/task.h"
#include "experiments/text/grammar.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// As the tables of sweeps show the figure.
const char* TableFormat(const std::string& task, const std::string& figure) {
  const FigureKeys* const keys = ShownFigure(task, figure);
  return keys != nullptr ? keys->in_tables : ".3f";
}

// A value beside a change with this interval, to the same place.
std::string BesideText(double value, const std::optional<Interval>& interval, const char* format) {
  if (value == 0) return "0";
  return interval ? BesideInterval(value, *interval, format) : NumberText(value, format);
}

}  // namespace

std::string FigureOnText(const std::string& task, const std::string& figure) {
  static const std::map<std::string, std::string> kNames{{"acc", "accuracy"},
                                                         {"acc_norm", "accuracy (acc_norm)"},
                                                         {"acc5", "top-5 accuracy"},
                                                         {"kld", "divergence"},
                                                         {"same_top", "share of unchanged top tokens"}};
  const auto name = kNames.find(figure);
  return (name == kNames.end() ? figure : name->second) + " on " + task.substr(task.find(':') + 1);
}

Move MoveOf(const SweepFigure& row) {
  return {row.cell->task, row.figure->keys.name, row.figure->value, row.change->value, row.change->interval};
}

std::string MoveText(const Move& move) {
  const char* const format = TableFormat(move.task, move.figure);
  if (move.change == 0) return Formatted("stays at {}", BesideText(move.value, {}, format));
  const bool rises = move.change > 0;
  std::string size = NumberText(std::fabs(move.change), format);
  if (const std::optional<Interval>& i = move.interval)
    size = WithInterval(std::fabs(move.change), rises ? *i : Interval{-i->high, -i->low}, format);
  return Formatted(
      "{} by {}{}, from {} to {}", rises ? "rises" : "falls", size, move.figure == "kld" ? " nats per token" : "",
      BesideText(move.value - move.change, move.interval, format), BesideText(move.value, move.interval, format));
}

std::string SignedText(const std::string& task, const std::string& figure, const Json& change) {
  const std::string format = Formatted("+{}", TableFormat(task, figure));
  const Interval ends{NumberAt(change, "low"), NumberAt(change, "high")};
  return std::isnan(ends.high - ends.low) ? NumberText(NumberAt(change, "value"), format)
                                          : WithInterval(NumberAt(change, "value"), ends, format);
}

std::string EstimateText(double value, double error) {
  return std::isfinite(error) && error > 0 ? WithError(value, error, ".6f") : NumberText(value, ".3g");
}

std::string ContextText(const Json& range) {
  const int64_t first = range.at("first"), last = range.at("last");
  return first == last ? Counted(first, "token") : RangeName(first, last) + " tokens";
}

std::string RangeText(int64_t first, int64_t last, const std::string& noun) {
  return noun + (first == last ? "" : "s") + " " + RangeName(first, last);
}

std::string EvaluatedText(const Json& evaluation) {
  const std::string plan = evaluation.at("plan"), cache = evaluation.value("cache", "");
  return evaluation.at("model").get<std::string>() + (plan.empty() || plan == "f32" ? "" : " under " + plan) +
         (cache.empty() ? "" : " with cache " + cache) + (evaluation.value("executed", false) ? " (executed)" : "");
}

}  // namespace tare
