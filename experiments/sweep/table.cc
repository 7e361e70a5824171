// SPDX-License-Identifier: Apache-2.0
#include "experiments/sweep/table.h"

#include <algorithm>
#include <cmath>

#include "experiments/text/csv.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// Standard error of the mean of paired differences of 0/1 outcomes.
double PairedError(const std::string& a, const std::string& b) {
  const auto n = static_cast<double>(a.size());
  if (a.size() != b.size() || a.size() < 2) return NAN;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = a[i] - b[i];
    sum += d;
    squares += d * d;
  }
  return std::sqrt((squares - sum * sum / n) / (n - 1) / n);
}

// How a cell's i-th figure differs from that of 16 bits: nothing for that cell itself, or where there is none.
std::optional<Figure> ChangeOf(const std::vector<SweepCell>& cells, const SweepCell& cell, size_t i) {
  for (const SweepCell& c : cells) {
    if (cell.bits == 16 || c.bits != 16 || c.model != cell.model || c.task != cell.task ||
        c.granularity != cell.granularity)
      continue;
    const Figure &now = cell.figures.list[i], &before = c.figures.list[i];
    Figure change{.keys = now.keys, .value = now.value - before.value};
    if (now.keys.outcomes) change.error = PairedError(now.outcomes, before.outcomes);
    return change;
  }
  return std::nullopt;
}

std::string ErrorText(const Figure& figure) { return figure.error ? Formatted(" +/- {:.3f}", *figure.error) : ""; }

std::string CellText(const std::vector<SweepCell>& cells, const SweepCell& cell, size_t i) {
  const Figure& figure = cell.figures.list[i];
  const std::string text = Formatted("{:.3f}{}", figure.value, ErrorText(figure));
  const std::optional<Figure> change = ChangeOf(cells, cell, i);
  return change ? Formatted("{} ({:+.3f}{})", text, change->value, ErrorText(*change)) : text;
}

template <typename Get>
auto Distinct(const std::vector<SweepCell>& cells, Get get) {
  std::vector<std::decay_t<decltype(get(cells[0]))>> seen;
  for (const SweepCell& cell : cells) {
    if (std::ranges::find(seen, get(cell)) == seen.end()) seen.push_back(get(cell));
  }
  return seen;
}

std::string Block(const std::vector<SweepCell>& cells, const std::string& task, size_t i, const char* name) {
  const auto bits = Distinct(cells, [](const SweepCell& c) { return c.bits; });
  std::string text = Formatted("\n{}, {}\n{:<22}{:<21}", task, name, "model", "scale per");
  for (const int b : bits) text += Formatted("{:<38}", Formatted("{} bits", b));
  while (text.ends_with(' ')) text.pop_back();
  for (const auto& model : Distinct(cells, [](const SweepCell& c) { return c.model; })) {
    for (const auto& granularity : Distinct(cells, [](const SweepCell& c) { return c.granularity; })) {
      text += Formatted("\n{:<22}{:<21}", model, granularity);
      for (const SweepCell& cell : cells) {
        if (cell.model != model || cell.granularity != granularity || cell.task != task) continue;
        text += Formatted("{:<38}", CellText(cells, cell, i));
      }
      while (text.ends_with(' ')) text.pop_back();
    }
  }
  return text + "\n";
}

}  // namespace

std::string SweepTable(const std::vector<SweepCell>& cells) {
  std::string text;
  for (const auto& task : Distinct(cells, [](const SweepCell& c) { return c.task; })) {
    const std::vector<Figure>& figures = std::ranges::find(cells, task, &SweepCell::task)->figures.list;
    for (size_t i = 0; i < figures.size(); ++i) {
      if (figures[i].keys.in_tables) text += Block(cells, task, i, figures[i].keys.name);
    }
  }
  return text;
}

std::string SweepCsv(const std::vector<SweepCell>& cells) {
  std::string text = "model,task,granularity,bits,plan,figure,value,stderr,change,change_stderr,n\n";
  for (const SweepCell& cell : cells) {
    for (size_t i = 0; i < cell.figures.list.size(); ++i) {
      const Figure& figure = cell.figures.list[i];
      if (!figure.keys.in_tables) continue;
      const std::optional<Figure> change = ChangeOf(cells, cell, i);
      text += Formatted("{},{},{},{},{},{},{},{},{},{},{}\n", CsvField(cell.model), CsvField(cell.task),
                        cell.granularity, cell.bits, CsvField(cell.key["plan"].get<std::string>()), figure.keys.name,
                        figure.value, figure.error ? nlohmann::json(*figure.error).dump() : "",
                        change ? Formatted("{}", change->value) : "",
                        change && change->error ? Formatted("{}", *change->error) : "", cell.figures.count);
    }
  }
  return text;
}

}  // namespace tare
