// SPDX-License-Identifier: Apache-2.0
// Loss of quantized files as stored against their bits, from sweeps of one model's versions (tare sweep --source): the
// change from the source, and differences between files of equally many bits, by the sweep's own tests.
#include <ranges>

#include "experiments/report/figures/figures.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

bool IsPerplexity(const SweepFigure& row) { return std::string_view(row.figure->keys.name) == "perplexity"; }

// {"value", "low", "high"} of a change or difference: perplexity in percent of the source's, others in their unit.
Json Drawn(const SweepFigure& row, const Comparison& c) {
  const double unit = IsPerplexity(row) ? 100 / (row.figure->value - row.change->value) : 1;
  const auto [low, high] = EndsOf(c.interval, unit);
  return {{"value", NumberOrNull(unit * c.value)}, {"low", low}, {"high", high}};
}

std::string DrawnText(const SweepFigure& row, const Comparison& c) {
  const Json drawn = Drawn(row, c);
  return IsPerplexity(row) ? EndsText(drawn, "value", "+.2f") + " %"
                           : SignedText(row.cell->task, row.figure->keys.name, drawn) + UnitText(row.figure->keys.name);
}

// "gptq.h5 (gptq, calibrated on this text)"; a version that another program quantized has no method.
std::string NamedVersion(const SweepCell& cell) {
  const std::string &method = cell.version->method, saw = cell.SawInput() ? ", calibrated on this text" : "";
  return method.empty() ? cell.model : Formatted("{} ({}{})", cell.model, method, saw);
}

constexpr size_t kPairsSaid = 3;  // differences in a sentence; the figure of differences has all

std::string DifferencesText(const std::vector<SweepFigure>& differences) {
  std::string text;
  for (size_t i = 0; i < std::min(differences.size(), kPairsSaid); ++i) {
    const SweepFigure& row = differences[i];
    text += Formatted("; the difference of {} from {} is {} ({})", row.cell->model, row.drop->against,
                      DrawnText(row, *row.drop), VerdictWord(*row.drop));
  }
  if (differences.size() > kPairsSaid)
    text += Formatted("; the table of differences has {} more", differences.size() - kPairsSaid);
  return text;
}

// One sentence for all versions of equally many bits:
//
//   At 4.25 bits per weight of quantized matrices, perplexity on own changes by +0.16 [+0.12, +0.20] % with rtn.h5
//   (rtn) and +0.09 [+0.08, +0.10] % with gptq.h5 (gptq) over 40 windows; the difference of gptq.h5 from rtn.h5 is
//   -0.07 [-0.11, -0.03] % (significant).
std::string FindingOf(const std::vector<SweepFigure>& group, std::vector<SweepFigure> differences) {
  const SweepFigure& one = group.front();
  std::vector<std::string> changes;
  for (const SweepFigure& row : group)
    changes.push_back(Formatted("{} with {}", DrawnText(row, *row.change), NamedVersion(*row.cell)));
  std::erase_if(differences, [&](const SweepFigure& row) {
    return !row.drop->primary || std::ranges::find(group, row.cell, &SweepFigure::cell) == group.end();
  });
  const StoredVersion& version = *one.cell->version;
  const char* const of = version.quantized_bits > 0 ? "quantized matrices" : "all tensors";
  return Formatted("At {:.2f} bits per weight of {}, {} changes by {}{}{}.", version.Bits(), of,
                   FigureOnText(one.cell->task, one.figure->keys.name), Listed(changes, ", ", {}, " and "),
                   OverText(*one.change), DifferencesText(differences));
}

// Groups the rows by their task and bits.
std::vector<std::string> FindingsOf(const std::vector<SweepFigure>& drawn,
                                    const std::vector<SweepFigure>& differences) {
  const auto group_of = [](const SweepFigure& row) { return std::pair(row.cell->task, row.cell->version->Bits()); };
  std::vector<std::string> findings;
  for (const auto& group : Distinct(drawn, group_of)) {
    const auto is_in = [&](const SweepFigure& row) { return group_of(row) == group; };
    findings.push_back(FindingOf(drawn | std::views::filter(is_in) | std::ranges::to<std::vector>(), differences));
  }
  return findings;
}

// "Over 5 cuts of the calibration text, perplexity on own changes by +0.91 [+0.88, +0.95] % with gptq-0.h5 ..
// gptq-4.h5." of what is drawn, and so of each method compared with the others: what the terminal says of cuts.
void AddCuts(const Sweep& sweep, const std::vector<SweepFigure>& drawn, std::vector<std::string>& findings) {
  const auto add = [&](const auto& spread, size_t cuts, const char* verb, const SampleMean& mean,
                       const std::string& files) {
    const SweepFigure* const like = FindWhere(drawn, [&](const SweepFigure& row) {
      return row.cell->task == spread.task && std::string_view(row.figure->keys.name) == spread.figure.name;
    });
    if (like == nullptr) return;
    findings.push_back(Formatted("Over {} cuts of the calibration text, {} {} {} {}.", cuts,
                                 FigureOnText(spread.task, spread.figure.name), verb,
                                 DrawnText(*like, {.value = mean.mean, .interval = mean.interval}), files));
  };
  const std::vector<CutSpread> spreads = SpreadOverCuts(sweep.cells, sweep.comparisons, sweep.cuts);
  for (const CutSpread& s : spreads) {
    if (s.change) add(s, s.values.size(), "changes by", *s.change, "with " + s.Name());
  }
  for (const PairSpread& d : DifferencesOverCuts(spreads))
    add(d, d.differences.size(), "differs by", d.of_pairs,
        Formatted("with {} ({})", d.plan, VerdictWord({.p_holm = d.p_holm})));
}

void AddVersion(const SweepFigure& row, FigureData& figure) {
  const StoredVersion& version = *row.cell->version;
  const auto text = [](const std::string& some) { return some.empty() ? Json() : Json(some); };
  const Json drawn = Drawn(row, *row.change);
  figure.table.Add({row.cell->task + ", " + row.figure->keys.name + (IsPerplexity(row) ? " (%)" : ""), row.cell->model,
                    text(version.plan), text(version.method), text(version.calibration),
                    version.quantized_bits > 0 ? NumberOrNull(version.quantized_bits) : Json(), version.bits_per_weight,
                    version.megabytes, row.figure->value, drawn["value"], drawn["low"], drawn["high"],
                    VerdictWord(*row.change), row.change->windows > 0 ? Json(row.change->windows) : Json(),
                    row.cell->figures.count});
  Json& added = figure.table.rows.back();  // with what is for the drawing alone
  added["at"] = version.Bits();
  added["series"] = version.method.empty() ? row.cell->model : version.method;
}

FigureData FigureOfVersions(const Sweep& sweep) {
  FigureData figure = FigureOfKind("methods");
  std::vector<SweepFigure> drawn;
  std::string source;
  for (const SweepFigure& row : sweep.Figures()) {
    if (!row.cell->version) continue;
    if (row.cell->model == sweep.comparisons.of_source && IsPerplexity(row))
      source += Formatted(" {} itself has perplexity {} on {}, in {:.2f} bits per weight and {:.2f} MB; n: {}.",
                          row.cell->model, NumberText(row.figure->value, ".3f"),
                          row.cell->task.substr(row.cell->task.find(':') + 1), row.cell->version->bits_per_weight,
                          row.cell->version->megabytes, CountText(*row.cell));
    if (row.change == nullptr || !row.change->primary || !row.cell->AsStored()) continue;
    AddVersion(row, figure);
    drawn.push_back(row);
  }
  figure.findings = FindingsOf(drawn, DifferencesOf(sweep.cells, sweep.comparisons));
  AddCuts(sweep, drawn, figure.findings);
  FillWords(figure, {{"source", sweep.comparisons.of_source}, {"itself", source}});
  return figure;
}

}  // namespace

std::vector<FigureData> LossesOfMethods(const Material& material) {
  return WithRows(material.sweeps | std::views::transform(FigureOfVersions) | std::ranges::to<std::vector>());
}

}  // namespace tare
