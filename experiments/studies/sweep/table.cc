// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/table.h"

#include <algorithm>

#include "experiments/table/table.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

template <typename Get>
auto Distinct(const std::vector<SweepCell>& cells, Get get) {
  std::vector<std::decay_t<decltype(get(cells[0]))>> seen;
  for (const SweepCell& cell : cells) {
    if (std::ranges::find(seen, get(cell)) == seen.end()) seen.push_back(get(cell));
  }
  return seen;
}

Table PlanRows(const char* value, const char* change) {
  return {.columns = {{.name = "plan", .title = "plan", .side = Side::kLeft, .width = 26},
                      {.name = "value", .title = value, .side = Side::kLeft, .width = 22},
                      {.name = "change", .title = change, .side = Side::kLeft, .width = 26}}};
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
  return Formatted("  a change of {} is detected in 4 runs of 5; half of it needs {} items\n", range(sizes, number),
                   range(halves, whole));
}

std::string ModelRows(const std::vector<SweepFigure>& rows) {
  const SweepFigure& first = rows.front();
  const char* const format = first.figure->keys.in_tables;
  Table table = PlanRows(first.figure->keys.name, "change from 16 bits");
  std::vector<const Comparison*> changes;
  for (const SweepFigure& row : rows) {
    table.Add({PlanText(*row.cell), FigureText(*row.figure, format),
               row.change != nullptr ? ComparisonText(*row.change, format) : ""});
    changes.push_back(row.change);
  }
  const std::string how = HowMeasured(first.cell->result, *first.cell->kind);
  return Formatted("\n{}\n{}", first.cell->model, how.empty() ? "" : "  " + how + "\n") + TableText(table, 2) +
         PowerText(changes, format);
}

// How much more the model's figure changed than the first model's.
std::string DropRows(const std::vector<SweepFigure>& rows) {
  Table table = PlanRows("the changes", "difference");
  for (const SweepFigure& row : rows) {
    if (row.drop == nullptr) continue;
    const char* const format = row.figure->keys.in_tables;
    const auto number = [&](double x) { return NumberText(x, Formatted("+{}", format)); };
    table.Add({PlanText(*row.cell), number(row.change->value) + ", " + number(row.change->value - row.drop->value),
               ComparisonText(*row.drop, format)});
  }
  const auto drop = std::ranges::find_if(rows, [](const SweepFigure& row) { return row.drop != nullptr; });
  if (drop == rows.end()) return "";
  return Formatted("\nchange of {} minus that of {}\n", drop->cell->model, drop->drop->against) + TableText(table, 2);
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
  const std::vector<SweepFigure> all = FiguresOf(cells, comparisons);
  const auto models = Distinct(cells, [](const SweepCell& c) { return c.model; });
  std::string text;
  for (const auto& task : Distinct(cells, [](const SweepCell& c) { return c.task; })) {
    const TaskKind& kind = *std::ranges::find(cells, task, &SweepCell::task)->kind;
    for (const FigureKeys& keys : kind.figures) {
      if (keys.in_tables == nullptr) continue;
      text += Formatted("\n{}, {}\n", task, keys.name);
      std::string drops;
      for (const auto& model : models) {
        std::vector<SweepFigure> rows;
        std::ranges::copy_if(all, std::back_inserter(rows), [&](const SweepFigure& f) {
          return f.cell->model == model && f.cell->task == task && std::string_view(f.figure->keys.name) == keys.name;
        });
        if (rows.empty()) continue;
        text += ModelRows(rows);
        drops += DropRows(rows);
      }
      text += drops;
    }
  }
  return text;
}

std::string SweepLegend(const Comparisons& comparisons) {
  std::string text =
      "+/- one standard error; for a change, of differences paired by item, by sample\n"
      "(if items share one) or by window; [low, high] 95 %, if fewer than five items\n"
      "are right, wrong or changed\n";
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
    text += "? too few items: with five changed items, no change can be significant\n";
  if (!comparisons.drops.empty())
    text += "one pair of models is one sample of training: differences apply to these two\n";
  return text;
}

}  // namespace tare
