// SPDX-License-Identifier: Apache-2.0
// Accuracy, perplexity and the other figures of tasks against bits, from sweeps of one site, or of several quantized
// together. Sweeps of several sites one after another are drawn as attribution.
//
// And how much more a plan changes each model's figure than the first model's: the sweep table's "difference"
// (experiments/studies/sweep/comparison.h), with its 95 % interval and verdict.
#include <iterator>
#include <ranges>

#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"

namespace tare {
namespace {

std::string BitsPanelOf(const SweepFigure& row) {
  const std::string_view name = row.figure->keys.name;
  const std::string words = name == "acc"          ? ", share right"
                            : name == "acc_norm"   ? ", share right (acc_norm)"
                            : name == "perplexity" ? ", per token"
                            : name == "kld"        ? ", nats per token"
                                                   : ", " + std::string(name);
  return row.cell->task + words + (row.cell->Executed() ? " (executed)" : "");
}

std::string UnitOf(const SweepFigure& row) {
  const std::string name = row.figure->keys.name;
  return name.starts_with("acc") ? "share right" : name == "kld" ? "nats per token" : name;
}

std::string ScaleOf(const SweepCell& cell) {
  if (cell.row.granularity.empty()) return cell.row.format;
  return "one scale per " + cell.row.granularity + (IsInteger(cell.row) ? "" : ", " + cell.row.format);
}

double SizeOf(const SweepFigure& row) { return row.change == nullptr ? -1 : std::fabs(row.change->value); }

// A sentence per model on its largest change at the fewest bits, or without any change on its first value there.
std::vector<std::string> FindingsOf(const std::vector<SweepFigure>& rows, const std::string& panel) {
  int fewest = 16;
  for (const SweepFigure& row : rows) {
    if (BitsPanelOf(row) == panel) fewest = std::min(fewest, row.cell->row.bits);
  }
  const auto counts = [&](const SweepFigure& row) {
    // A divergence, and what is measured with it, is a cost by itself.
    if (row.change == nullptr && row.cell->figures.list.front().keys.of_same) return false;
    return BitsPanelOf(row) == panel && row.cell->row.bits == fewest;
  };
  std::vector<std::string> sentences;
  for (const SweepFigure* row :
       LargestOfEach(rows | std::views::filter(counts), [](const SweepFigure& row) { return row.cell->model; }, SizeOf))
    sentences.push_back(CostSentence(*row));
  return sentences;
}

// The rows of figures that are reported, one accuracy per task; table.csv has all.
std::vector<SweepFigure> Reported(std::vector<SweepFigure> rows) {
  std::erase_if(rows, [](const SweepFigure& row) {
    return !row.InTables() || !row.cell->figures.Reports(row.figure->keys.name);
  });
  return rows;
}

// Where a panel's axis begins: close bars of shares would fill it, so it spans at least 0.5. Null: at the lowest bar.
Json FloorOf(const std::vector<SweepFigure>& rows, const std::string& panel) {
  double low = 1, high = 0;
  for (const SweepFigure& row : rows) {
    if (BitsPanelOf(row) != panel) continue;
    const std::optional<Interval> interval = row.figure->OfItems();
    if (row.figure->keys.outcomes == nullptr || !interval) return {};  // no share
    low = std::min(low, interval->low), high = std::max(high, interval->high);
  }
  return high - low < 0.5 ? Json(std::max(0.0, high - 0.5)) : Json();
}

FigureData BitsFigure(const Sweep& sweep) {
  const std::vector<SweepFigure> rows = Reported(sweep.Figures());
  auto quantized = rows | std::views::filter([](const SweepFigure& row) { return row.cell->row.bits != 16; });
  const std::vector<std::string> panels = Distinct(rows, BitsPanelOf),
                                 scales = Distinct(quantized, [](const auto& row) { return ScaleOf(*row.cell); }),
                                 sites = Distinct(quantized, [](const auto& row) { return row.cell->row.site; });
  if (sites.size() != 1) return {};  // several, or 16 bits alone
  FigureData figure = FigureOfKind("bits");
  std::map<std::string, Json> floors;
  for (const std::string& panel : panels) floors[panel] = FloorOf(rows, panel);
  for (const SweepFigure& row : rows) {
    const auto [low, high] = EndsOf(row);
    // 16 bits are where every line begins.
    for (const std::string& scale : row.cell->row.bits == 16 ? scales : std::vector{ScaleOf(*row.cell)}) {
      figure.table.Add({BitsPanelOf(row), row.cell->model, scale, row.cell->row.bits, row.figure->value, low, high,
                        row.cell->figures.count, UnitOf(row)});
      figure.table.rows.back()["floor"] = floors.at(BitsPanelOf(row));  // for the drawing alone
    }
  }
  const bool changes = std::ranges::any_of(rows, [](const SweepFigure& row) { return row.change != nullptr; });
  FillWords(figure, {{"site", sites[0]},
                     {"intervals", changes ? "that of the change from the unquantized model, paired by window. "
                                             "Findings are significant (p < 0.05 after Holm over the primary figures "
                                             "of all tasks) unless marked"
                                           : "none, as the unquantized model was not run"}});
  for (const std::string& panel : panels)
    std::ranges::move(FindingsOf(rows, panel), std::back_inserter(figure.findings));
  const auto count_of = [&](const std::string& panel) {
    return CountText(*std::ranges::find(rows, panel, BitsPanelOf)->cell);
  };
  figure.caption += Formatted(" {}.", Listed(Distinct(panels, count_of), "; "));
  return figure;
}

constexpr size_t kSaid = 5;  // significant differences with a sentence of their own; the table has all

std::string DifferencesSentence(const SweepFigure& row) {
  const double p = *row.drop->p_holm;
  return Formatted("{}, {}{} ({} after Holm).", PlanWords(*row.cell), MoreText(row), OverText(*row.drop),
                   p < 0.001 ? "p < 0.001" : Formatted("p = {:.2g}", p));
}

// A family without a significant difference says so, with the number tested. Files as stored: methods.cc, with costs.
std::vector<std::string> FindingsOf(std::vector<SweepFigure> rows) {
  std::erase_if(rows, [](const SweepFigure& row) { return row.cell->AsStored(); });
  if (rows.empty()) return {};
  std::erase_if(rows, [](const SweepFigure& row) { return !row.drop->p_holm; });
  const size_t tested = rows.size();
  if (tested == 0) return {"No difference between the models' changes could be tested."};
  std::erase_if(rows, [](const SweepFigure& row) { return !row.drop->Significant(); });
  if (rows.empty())
    return {Formatted("The models' changes do not differ significantly: of {} tested, none has p < 0.05 after Holm.",
                      Counted(static_cast<int64_t>(tested), "difference"))};
  if (rows.size() > kSaid) std::ranges::stable_sort(rows, {}, [](const SweepFigure& row) { return *row.drop->p_holm; });
  std::vector<std::string> sentences;
  for (size_t i = 0; i < std::min(rows.size(), kSaid); ++i) sentences.push_back(DifferencesSentence(rows[i]));
  const std::string rest = rows.size() > kSaid
                               ? Formatted("{} more are significant; the figure's table has all", rows.size() - kSaid)
                               : "no other is significant";
  if (tested > std::min(rows.size(), kSaid))
    sentences.push_back(
        Formatted("Of the {} differences between the models' changes that were tested, {}.", tested, rest));
  return sentences;
}

// "gptq.h5 - rtn.h5" of versions, which may be compared with several.
std::string PairName(const SweepFigure& row) {
  if (row.cell->Source().empty()) return RunName(*row.cell);
  const std::string plan = row.cell->AsStored() ? "" : RunName(*row.cell) + ": ";
  return plan + row.cell->model + " - " + (row.drop != nullptr ? row.drop->against : row.cell->Source());
}

FigureData DifferencesFigure(const Sweep& sweep) {
  // Changes of files whose bits are not known, so that they are not drawn against these (methods.cc); then differences.
  std::vector<SweepFigure> rows = sweep.Figures();
  std::erase_if(rows, [](const SweepFigure& row) { return !row.cell->AsStored() || row.cell->version || !row.change; });
  for (SweepFigure& row : rows) row.drop = nullptr;
  std::ranges::copy(DifferencesOf(sweep.cells, sweep.comparisons), std::back_inserter(rows));
  rows = Reported(std::move(rows));
  if (rows.empty()) return {};
  const std::string& source = sweep.comparisons.of_source;
  const std::string first =
      source.empty() && rows.front().drop != nullptr ? rows.front().drop->against : "the other file";
  FigureData figure = FigureOfKind("differences");
  FillWords(
      figure,
      {{"title", source.empty() ? "Changes compared with those of " + first : "Differences between quantized files"},
       {"plan", source.empty() ? "plan" : "files"},
       {"first", first},
       {"change", source.empty() ? "model's change from its unquantized form" : "file's change from " + source},
       {"seeds", source.empty() ? std::string(kOneTraining) + " " : ""}});
  figure.findings = FindingsOf(rows);
  for (const SweepFigure& row : rows) {
    if (row.drop == nullptr && row.change->primary)
      figure.findings.push_back(Formatted("From {} to {}, {} {} ({}).", row.cell->Source(), row.cell->model,
                                          FigureOnText(row.cell->task, row.figure->keys.name), MoveText(row),
                                          VerdictWord(*row.change)));
    const Comparison& drop = row.drop != nullptr ? *row.drop : *row.change;
    const auto [low, high] = EndsOf(drop.interval);
    figure.table.Add({row.cell->task + ", " + row.figure->keys.name, PairName(row), row.cell->model, row.change->value,
                      row.drop != nullptr ? NumberOrNull(row.change->value - drop.value) : Json(), drop.value, low,
                      high, drop.p_holm ? NumberOrNull(*drop.p_holm) : Json(), VerdictWord(drop),
                      drop.windows > 0 ? Json(drop.windows) : Json(), row.cell->figures.count});
    figure.table.rows.back()["offset"] = source.empty() ? row.cell->model : "";  // for the drawing alone
  }
  return figure;
}

}  // namespace

std::vector<FigureData> Bits(const Material& material) {
  return WithRows(material.sweeps | std::views::transform(BitsFigure) | std::ranges::to<std::vector>());
}

std::vector<FigureData> Differences(const Material& material) {
  return WithRows(material.sweeps | std::views::transform(DifferencesFigure) | std::ranges::to<std::vector>());
}

}  // namespace tare
