// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/table.h"

#include <algorithm>

#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr size_t kPlanWidth = 28, kValueWidth = 24, kColumns = 80;

struct Table {
  const std::vector<SweepCell>& cells;
  const Comparisons& comparisons;
};

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

std::string PlanText(const SweepCell& cell) { return cell.Plan() + (cell.Executed() ? " executed" : ""); }

// "  a change of 0.077 to 0.12 shows in 4 runs of 5, half of it with 204 to 390 items"
std::string PowerText(const std::vector<const Comparison*>& changes, const char* format) {
  std::vector<double> sizes;
  std::vector<int64_t> halves;
  for (const Comparison* c : changes) {
    if (c == nullptr || !c->items) continue;
    sizes.push_back(*c->detectable);
    halves.push_back(*c->for_half);
  }
  if (sizes.empty()) return "";
  const auto range = [](const auto& values, auto text) {
    const std::string least = text(std::ranges::min(values)), most = text(std::ranges::max(values));
    return least == most ? least : least + " to " + most;
  };
  const auto number = [&](double x) { return NumberText(x, format); };
  const auto whole = [](int64_t n) { return Formatted("{}", n); };
  return Formatted("  a change of {} shows in 4 runs of 5, half of it with {} items\n", range(sizes, number),
                   range(halves, whole));
}

std::string ModelRows(const Table& table, const std::string& model, const std::string& task, size_t i) {
  std::string text;
  std::vector<const Comparison*> changes;
  const char* format = nullptr;
  for (size_t c = 0; c < table.cells.size(); ++c) {
    const SweepCell& cell = table.cells[c];
    if (cell.model != model || cell.task != task) continue;
    const Figure& figure = cell.figures.list[i];
    format = figure.keys.in_tables;
    if (text.empty()) {
      const std::string how = HowMeasured(cell.result, *cell.kind);
      text = Formatted("\n{}\n{}", model, how.empty() ? "" : "  " + how + "\n");
      text += Columns("plan", figure.keys.name, "change from 16 bits");
    }
    changes.push_back(Find(table.comparisons.changes, c, i));
    text += Row(PlanText(cell), FigureText(figure, format),
                changes.back() != nullptr ? ComparisonText(*changes.back(), format) : "");
  }
  return text.empty() ? text : text + PowerText(changes, format);
}

// How much more the model's figure changed than the first model's.
std::string DropRows(const Table& table, const std::string& model, const std::string& task, size_t i) {
  std::string text;
  for (size_t c = 0; c < table.cells.size(); ++c) {
    const SweepCell& cell = table.cells[c];
    const Comparison* const drop = Find(table.comparisons.drops, c, i);
    if (cell.model != model || cell.task != task || drop == nullptr) continue;
    const char* const format = cell.figures.list[i].keys.in_tables;
    if (text.empty()) {
      text = Formatted("\nchange of {} less that of {}\n", model, drop->against);
      text += Columns("plan", "the changes", "difference");
    }
    const double own = Find(table.comparisons.changes, c, i)->value;
    const auto number = [&](double x) { return NumberText(x, Formatted("+{}", format)); };
    text += Row(PlanText(cell), number(own) + ", " + number(own - drop->value), ComparisonText(*drop, format));
  }
  return text;
}

}  // namespace

std::string ComparisonText(const Comparison& c, const char* format) {
  const std::string with_sign = Formatted("+{}", format);
  std::string text = NumberText(c.value, with_sign);
  if (c.items && c.items->gained + c.items->lost < kFewItems && c.interval) {
    text = WithInterval(c.value, *c.interval, with_sign);
  } else if (c.error) {
    text = WithError(c.value, *c.error, with_sign);
  }
  return text + (c.Significant() ? " *" : c.TooFew() ? " ?" : "");
}

std::string SweepTable(const std::vector<SweepCell>& cells, const Comparisons& comparisons) {
  const Table table{cells, comparisons};
  const auto models = Distinct(cells, [](const SweepCell& c) { return c.model; });
  std::string text;
  for (const auto& task : Distinct(cells, [](const SweepCell& c) { return c.task; })) {
    const std::vector<Figure>& figures = std::ranges::find(cells, task, &SweepCell::task)->figures.list;
    for (size_t i = 0; i < figures.size(); ++i) {
      if (figures[i].keys.in_tables == nullptr) continue;
      text += Formatted("\n{}, {}\n", task, figures[i].keys.name);
      for (const auto& model : models) text += ModelRows(table, model, task, i);
      for (const auto& model : models) text += DropRows(table, model, task, i);
    }
  }
  return text;
}

std::string SweepLegend(const Comparisons& comparisons) {
  std::string text =
      "+/- one standard error; of a change, of the differences paired by item, by\n"
      "sample where items share one, or by window; [low, high] 95 % where fewer than\n"
      "five items are right, wrong or changed\n";
  const auto any = [&](auto has) {
    return std::ranges::any_of(comparisons.changes, has) || std::ranges::any_of(comparisons.drops, has);
  };
  const auto holm = [](const std::vector<Comparison>& list) {
    return std::ranges::count_if(list, [](const Comparison& c) { return c.p_holm.has_value(); });
  };
  if (any([](const Comparison& c) { return c.p_holm.has_value(); }))
    text += Formatted("* significant: p < 0.05 after Holm over {} changes{}\n", holm(comparisons.changes),
                      comparisons.drops.empty() ? "" : Formatted(", and {} differences", holm(comparisons.drops)));
  if (any([](const Comparison& c) { return c.TooFew(); }))
    text += "? too few items: five that change cannot be significant, whichever way\n";
  if (!comparisons.drops.empty())
    text += "one pair of models is one sample of training: differences are of these two\n";
  return text;
}

}  // namespace tare
