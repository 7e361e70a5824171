// SPDX-License-Identifier: Apache-2.0
// From `tare eval`: loss and divergence by the number of context tokens (--tasks perplexity=TEXT, divergence=TEXT), and
// needles found, by their depth and the length of the text (--by depth,length).
#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"

namespace tare {
namespace {

std::string LossText(const Json& range) { return EstimateText(NumberAt(range, "nll"), NumberAt(range, "nll_stderr")); }

void AddLosses(const Json& evaluation, const std::string& name, const Json& task, FigureData& figure) {
  const std::string of = EvaluatedName(evaluation) + " on " + name.substr(name.find(':') + 1);
  const Json& ranges = task.at("by_position");
  for (const Json& range : ranges) {
    const double loss = NumberAt(range, "nll"), error = NumberAt(range, "nll_stderr");
    figure.table.Add(
        {of, range.at("first"), range.at("last"), loss, error, loss - error, loss + error, range.at("tokens")});
  }
  if (ranges.empty()) return;
  const Json &first = ranges.front(), &last = ranges.back();
  figure.findings.push_back(Formatted("The loss of {} on {} is {} nats per token with {} of context, and {} with {}.",
                                      EvaluatedText(evaluation), name.substr(name.find(':') + 1), LossText(first),
                                      ContextText(first), LossText(last), ContextText(last)));
}

void AddContexts(const Json& evaluation, const std::string&, const Json& task, FigureData& figure) {
  const std::string of = EvaluatedName(evaluation);
  for (const Json& range : task.at("by_context")) {
    const int64_t first = range.at("first"), last = range.at("last");
    const double kld = NumberAt(range, "kld");
    if (kld <= 0)
      figure.missing.push_back(Formatted("{}, context {}: a log axis cannot show {}", of, RangeName(first, last), kld));
    figure.table.Add({of, first, last, kld, range.at("perplexity_ratio"), range.at("tokens")});
  }
  if (task.at("by_context").empty()) return;
  const Json &first = task["by_context"].front(), &last = task["by_context"].back();
  const double error = task.contains("kld_stderr") ? NumberAt(task, "kld_stderr") : NAN;
  figure.findings.push_back(
      Formatted("The predictions of {} diverge by {} nats per token: by {:.3g} with {} of context, and by {:.3g} with "
                "{}.",
                EvaluatedText(evaluation), EstimateText(NumberAt(task, "kld"), error), NumberAt(first, "kld"),
                ContextText(first), NumberAt(last, "kld"), ContextText(last)));
}

void AddGroups(const Json& evaluation, const std::string& name, const Json& task, FigureData& figure) {
  const std::string items = name.substr(name.find(':') + 1), panel = EvaluatedName(evaluation) + ", " + items;
  const Json* worst = nullptr;
  double least = 1, found = 0, all = 0;
  for (const Json& group : task.at("by")) {
    if (!group.contains("depth") || !group.contains("length")) return;
    const double acc = NumberAt(group, "acc"), n = NumberAt(group, "n");
    figure.table.Add({panel, group["depth"], group["length"], acc, NumberAt(group, "acc_low"),
                      NumberAt(group, "acc_high"), group["n"]});
    if (std::isnan(acc)) continue;
    if (acc < least) least = acc, worst = &group;
    found += acc * n;
    all += n;
  }
  if (all == 0) return;
  const std::string fewest =
      worst == nullptr ? ""
                       : Formatted(", and the fewest at depth {:g} and length {}: a share of {:.2f} [{:.2f}, {:.2f}]",
                                   NumberAt(*worst, "depth"), worst->at("length").dump(), least,
                                   NumberAt(*worst, "acc_low"), NumberAt(*worst, "acc_high"));
  figure.findings.push_back(Formatted("{} finds {:.0f} of the {:.0f} needles of {}{}.", EvaluatedText(evaluation),
                                      found, all, items, fewest));
}

// The figure of the kind, with what `add` makes of each task that has the key.
FigureData FigureOf(const char* kind, const Material& material, const char* key, const auto& add) {
  FigureData figure = FigureOfKind(kind);
  material.ForEach("tare.eval/1", [&](const Json& json) {
    for (const auto& [name, task] : json.at("tasks").items()) {
      if (task.contains(key)) add(json, name, task, figure);
    }
  });
  return figure;
}

}  // namespace

std::vector<FigureData> Losses(const Material& material) {
  return WithRows({FigureOf("losses", material, "by_position", AddLosses)});
}

std::vector<FigureData> Positions(const Material& material) {
  return WithRows({FigureOf("positions", material, "by_context", AddContexts)});
}

std::vector<FigureData> Needles(const Material& material) {
  FigureData figure = FigureOf("needles", material, "by", AddGroups);
  if (figure.table.rows.empty()) return {};
  const auto [fewest, most] =
      std::ranges::minmax(figure.table.rows, {}, [](const Json& row) { return row.at("n").get<int64_t>(); });
  FillWords(figure, {{"n", RangeName(fewest.at("n"), most.at("n"))}});
  return {figure};
}

}  // namespace tare
