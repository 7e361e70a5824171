// SPDX-License-Identifier: Apache-2.0
#include "experiments/sweep/table.h"

#include <algorithm>
#include <cmath>
#include <format>

#include "experiments/text/csv.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

struct Figure {
  const char* name;      // key of the result
  const char* error;     // key of its standard error, or null
  const char* outcomes;  // key of the items' outcomes, or null
};
constexpr Figure kPerplexity{"perplexity", nullptr, nullptr};
constexpr Figure kAcc{"acc", "acc_stderr", "outcomes"};
constexpr Figure kAccNorm{"acc_norm", "acc_norm_stderr", "outcomes_norm"};

std::vector<Figure> FiguresOf(const Json& result) {
  if (result.contains("perplexity")) return {kPerplexity};
  return {kAcc, kAccNorm};
}

double Number(const SweepCell& cell, const char* name) { return cell.result[name].get<double>(); }

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

const SweepCell* Unquantized(const std::vector<SweepCell>& cells, const SweepCell& cell) {
  for (const SweepCell& c : cells) {
    if (c.bits == 16 && c.model == cell.model && c.task == cell.task && c.granularity == cell.granularity) return &c;
  }
  return nullptr;
}

std::string Value(const SweepCell& cell, const Figure& figure) {
  const double value = Number(cell, figure.name);
  if (figure.error == nullptr) return std::format("{:.3f}", value);
  return std::format("{:.3f} +/- {:.3f}", value, Number(cell, figure.error));
}

std::string Change(const std::vector<SweepCell>& cells, const SweepCell& cell, const Figure& figure) {
  const SweepCell* whole = Unquantized(cells, cell);
  if (whole == nullptr || cell.bits == 16) return "";
  const double change = Number(cell, figure.name) - Number(*whole, figure.name);
  if (figure.outcomes == nullptr) return std::format("({:+.3f})", change);
  const double error =
      PairedError(cell.result[figure.outcomes].get<std::string>(), whole->result[figure.outcomes].get<std::string>());
  return std::format("({:+.3f} +/- {:.3f})", change, error);
}

template <typename Get>
auto Distinct(const std::vector<SweepCell>& cells, Get get) {
  std::vector<std::decay_t<decltype(get(cells[0]))>> seen;
  for (const SweepCell& cell : cells) {
    if (std::ranges::find(seen, get(cell)) == seen.end()) seen.push_back(get(cell));
  }
  return seen;
}

std::string Block(const std::vector<SweepCell>& cells, const std::string& task, const Figure& figure) {
  const auto bits = Distinct(cells, [](const SweepCell& c) { return c.bits; });
  std::string text = std::format("\n{}, {}\n{:<22}{:<21}", task, figure.name, "model", "scale a");
  for (const int b : bits) text += std::format("{:<38}", std::format("{} bits", b));
  while (text.ends_with(' ')) text.pop_back();
  for (const auto& model : Distinct(cells, [](const SweepCell& c) { return c.model; })) {
    for (const auto& granularity : Distinct(cells, [](const SweepCell& c) { return c.granularity; })) {
      text += std::format("\n{:<22}{:<21}", model, granularity);
      for (const SweepCell& cell : cells) {
        if (cell.model != model || cell.granularity != granularity || cell.task != task) continue;
        text += std::format("{:<38}", Value(cell, figure) + " " + Change(cells, cell, figure));
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
    const auto cell = std::ranges::find(cells, task, &SweepCell::task);
    for (const Figure& figure : FiguresOf(cell->result)) text += Block(cells, task, figure);
  }
  return text;
}

std::string SweepCsv(const std::vector<SweepCell>& cells) {
  std::string text = "model,task,granularity,bits,plan,figure,value,stderr,change,change_stderr,n\n";
  for (const SweepCell& cell : cells) {
    const SweepCell* whole = Unquantized(cells, cell);
    for (const Figure& figure : FiguresOf(cell.result)) {
      const double value = Number(cell, figure.name);
      text += std::format("{},{},{},{},{},{},{},{},", CsvField(cell.model), CsvField(cell.task), cell.granularity,
                          cell.bits, CsvField(cell.key["plan"].get<std::string>()), figure.name, value,
                          figure.error == nullptr ? "" : cell.result[figure.error].dump());
      if (whole != nullptr && cell.bits != 16) {
        text += std::format("{},", value - Number(*whole, figure.name));
        if (figure.outcomes != nullptr) {
          text += std::format("{}", PairedError(cell.result[figure.outcomes].get<std::string>(),
                                                whole->result[figure.outcomes].get<std::string>()));
        }
      } else {
        text += ",";
      }
      text += std::format(",{}\n", cell.result[cell.result.contains("tokens") ? "tokens" : "n"].dump());
    }
  }
  return text;
}

}  // namespace tare
