// SPDX-License-Identifier: Apache-2.0
#include "experiments/sweep/table.h"

#include <algorithm>
#include <cmath>

#include "experiments/evidence/accuracy.h"
#include "experiments/text/csv.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr size_t kPlanWidth = 28, kValueWidth = 24, kColumns = 80;

// How a figure differs from that of 16 bits.
struct Change {
  double value = 0;
  std::optional<double> error;
  std::optional<OutcomeChanges> outcomes;  // of accuracies
};

Change ChangeBetween(const Figure& before, const Figure& now) {
  Change change{.value = now.value - before.value};
  if (now.keys.outcomes && now.outcomes.size() == before.outcomes.size() && !now.outcomes.empty()) {
    change.outcomes = ChangesOf(before.outcomes, now.outcomes);
    if (now.outcomes.size() > 1) change.error = change.outcomes->StandardError();
  } else if (now.keys.windows) {
    change.error = PairedWindowError(before.windows, now.windows, now.keys.of_mean);
  }
  return change;
}

// Nothing for the cell of 16 bits itself, or where there is none.
std::optional<Change> ChangeOf(const std::vector<SweepCell>& cells, const SweepCell& cell, size_t i) {
  if (cell.row.bits == 16) return std::nullopt;
  const auto baseline = std::ranges::find_if(cells, [&](const SweepCell& c) {
    return c.row.bits == 16 && c.model == cell.model && c.task == cell.task && !c.Executed();
  });
  if (baseline == cells.end()) return std::nullopt;
  return ChangeBetween(baseline->figures.list[i], cell.figures.list[i]);
}

std::string ChangeText(const Change& change, const std::string& format) {
  const auto signed_text = [&](double x) { return NumberText(x, "+" + format); };
  if (change.outcomes && change.outcomes->gained + change.outcomes->lost < kFewItems) {
    const Interval interval = change.outcomes->BonettPrice();
    return Formatted("{} [{}, {}]", signed_text(change.value), signed_text(interval.low), signed_text(interval.high));
  }
  return signed_text(change.value) + (change.error ? " +/- " + NumberText(*change.error, format) : "");
}

template <typename Get>
auto Distinct(const std::vector<SweepCell>& cells, Get get) {
  std::vector<std::decay_t<decltype(get(cells[0]))>> seen;
  for (const SweepCell& cell : cells) {
    if (std::ranges::find(seen, get(cell)) == seen.end()) seen.push_back(get(cell));
  }
  return seen;
}

std::string Columns(const std::string& plan, const std::string& value, const std::string& change) {
  std::string line = Formatted("  {:<{}}{:<{}}{}", plan, kPlanWidth, value, kValueWidth, change);
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// A plan that does not fit its column has lines of its own before, broken at its commas.
std::string Row(std::string plan, const std::string& value, const std::string& change) {
  if (plan.size() < kPlanWidth) return Columns(plan, value, change);
  std::string text;
  while (plan.size() > kColumns - 2) {
    const size_t comma = plan.rfind(',', kColumns - 3);
    if (comma == plan.npos) break;
    text += "  " + plan.substr(0, comma + 1) + "\n";
    plan.erase(0, comma + 1);
  }
  return text + "  " + plan + "\n" + Columns("", value, change);
}

std::string ModelRows(const std::vector<SweepCell>& cells, const std::string& model, const std::string& task,
                      size_t i) {
  std::string text;
  for (const SweepCell& cell : cells) {
    if (cell.model != model || cell.task != task) continue;
    if (text.empty()) {
      const std::string how = HowMeasured(cell.result, *cell.kind);
      text = Formatted("\n{}\n{}", model, how.empty() ? "" : "  " + how + "\n");
      text += Columns("plan", cell.figures.list[i].keys.name, "change from 16 bits");
    }
    const std::optional<Change> change = ChangeOf(cells, cell, i);
    const char* const format = cell.figures.list[i].keys.in_tables;
    text += Row(cell.Plan() + (cell.Executed() ? " executed" : ""), FigureText(cell.figures.list[i], format),
                change ? ChangeText(*change, format) : "");
  }
  return text;
}

std::string NumberOr(const std::optional<double>& value) { return value ? Formatted("{}", *value) : ""; }

std::string CsvRow(const std::vector<SweepCell>& cells, const SweepCell& cell, size_t i) {
  const Figure& figure = cell.figures.list[i];
  const std::optional<Change> change = ChangeOf(cells, cell, i);
  std::optional<Interval> interval, change_interval;
  if (!figure.outcomes.empty()) interval = WilsonInterval(figure.Right(), std::ssize(figure.outcomes));
  if (change && change->outcomes) change_interval = change->outcomes->BonettPrice();
  const auto ends = [](const std::optional<Interval>& of) {
    return of ? Formatted("{},{}", of->low, of->high) : std::string(",");
  };
  return Formatted("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", CsvField(cell.model), CsvField(cell.task),
                   CsvField(cell.row.site), CsvField(cell.row.format), CsvField(cell.row.granularity), cell.row.bits,
                   CsvField(cell.Plan()), cell.Executed() ? 1 : 0, figure.keys.name, figure.value,
                   NumberOr(figure.error), ends(interval), change ? NumberOr(change->value) : "",
                   change ? NumberOr(change->error) : "", ends(change_interval), cell.figures.count);
}

}  // namespace

std::string SweepTable(const std::vector<SweepCell>& cells) {
  std::string text;
  for (const auto& task : Distinct(cells, [](const SweepCell& c) { return c.task; })) {
    const std::vector<Figure>& figures = std::ranges::find(cells, task, &SweepCell::task)->figures.list;
    for (size_t i = 0; i < figures.size(); ++i) {
      if (figures[i].keys.in_tables == nullptr) continue;
      text += Formatted("\n{}, {}\n", task, figures[i].keys.name);
      for (const auto& model : Distinct(cells, [](const SweepCell& c) { return c.model; }))
        text += ModelRows(cells, model, task, i);
    }
  }
  return text;
}

std::string SweepCsv(const std::vector<SweepCell>& cells) {
  std::string text =
      "model,task,site,format,granularity,bits,plan,executed,figure,value,stderr,low,high,change,change_stderr,"
      "change_low,change_high,n\n";
  for (const SweepCell& cell : cells) {
    for (size_t i = 0; i < cell.figures.list.size(); ++i) text += CsvRow(cells, cell, i);
  }
  return text;
}

}  // namespace tare
