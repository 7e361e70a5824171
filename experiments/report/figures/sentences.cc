// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/sentences.h"

#include <cmath>
#include <map>

#include "experiments/report/figures/figures.h"
#include "experiments/significance/accuracy.h"
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

// "1.69 [1.49, 1.90]" of a change and its interval, as a size: without sign.
std::string SizeText(double change, const std::optional<Interval>& interval, const char* format) {
  if (!interval) return NumberText(std::fabs(change), format);
  return WithInterval(std::fabs(change), change > 0 ? *interval : Interval{-interval->high, -interval->low}, format);
}

bool IsInteger(const PlanRow& row) { return row.format.starts_with("int") || row.format.starts_with("u"); }

// A value beside a change with this interval, to the same place.
std::string BesideText(double value, const std::optional<Interval>& interval, const char* format) {
  if (value == 0) return "0";
  return interval ? BesideInterval(value, *interval, format) : NumberText(value, format);
}

}  // namespace

std::string WordsFor(const std::string& figure) {
  static const std::map<std::string, std::string> kNames{{"acc", "accuracy"},
                                                         {"acc_norm", "accuracy (acc_norm)"},
                                                         {"acc5", "top-5 accuracy"},
                                                         {"kld", "divergence"},
                                                         {"same_top", "share of unchanged top tokens"},
                                                         {"perplexity_ratio", "ratio of perplexities"}};
  const auto name = kNames.find(figure);
  return name == kNames.end() ? figure : name->second;
}

std::string FigureOnText(const std::string& task, const std::string& figure) {
  return WordsFor(figure) + " on " + task.substr(task.find(':') + 1);
}

Move MoveOf(const SweepFigure& row) {
  return {row.cell->task, row.figure->keys.name, row.figure->value, row.change->value, row.change->interval};
}

std::string MoveText(const Move& move) {
  const char* const format = TableFormat(move.task, move.figure);
  if (move.change == 0) return Formatted("stays at {}", BesideText(move.value, {}, format));
  return Formatted("{} by {}{}, from {} to {}", move.change > 0 ? "rises" : "falls",
                   SizeText(move.change, move.interval, format), move.figure == "kld" ? " nats per token" : "",
                   BesideText(move.value - move.change, move.interval, format),
                   BesideText(move.value, move.interval, format));
}

std::string PlanWords(const SweepCell& cell) {
  const PlanRow& row = cell.row;
  const char* const with = cell.Executed() ? "Executed with" : "With";
  const std::string rule = row.site + "=" + row.format + (row.granularity.empty() ? "" : "/" + row.granularity);
  if (cell.Plan() != rule) return Formatted("{} {}", with, cell.Plan());
  return Formatted("{} {} for {}{}", with, IsInteger(row) ? Formatted("{} bits", row.bits) : row.format, row.site,
                   row.granularity.empty() ? "" : " and one scale per " + row.granularity);
}

std::string MoreText(const SweepFigure& row) {
  const std::string name = row.figure->keys.name, &model = row.cell->model, &first = row.drop->against;
  const std::string size = SizeText(row.drop->value, row.drop->interval, TableFormat(row.cell->task, name)),
                    of = FigureOnText(row.cell->task, name), more = row.drop->value > 0 ? "more" : "less";
  if (row.figure->keys.outcomes != nullptr) return Formatted("{} keeps {} {} {} than {}", model, size, more, of, first);
  if (name == "perplexity") return Formatted("{} loses {} {} {} than {}", model, size, more, of, first);
  const std::string unit = name == "kld" ? " nats per token" : "";
  return Formatted("the change of {}'s {} is {}{} {} than that of {}'s", model, of, size, unit,
                   row.drop->value > 0 ? "higher" : "lower", first);
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
