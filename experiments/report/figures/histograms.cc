// SPDX-License-Identifier: Apache-2.0
// The distribution of magnitudes, on a log scale, with the codes of low-bit formats over it: values below half of the
// first code become 0.
#include <algorithm>
#include <map>

#include "experiments/observe/outlier_report.h"
#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"
#include "quant/format/format.h"

namespace tare {
namespace {

constexpr int kBinsPerStep = 32;       // a quarter of an octave
constexpr double kSmallest = 0x1p-16;  // of the largest; what is below is counted in the first step
constexpr Format kGrids[] = {Format::kInt8, Format::kInt6, Format::kInt4};

// The share of each quarter octave, by its lower end.
std::map<int, uint64_t> Steps(const OutlierStatistics& s) {
  std::map<int, uint64_t> steps;
  const int least = MagnitudeHistogram::BinOf(static_cast<float>(kSmallest * s.absmax())) / kBinsPerStep;
  for (const auto& [bin, count] : s.magnitudes.Counts()) steps[std::max(least, bin / kBinsPerStep)] += count;
  return steps;
}

void AddSite(const std::string& site, const std::string& model, const OutlierStatistics& s, FigureData& figure) {
  if (s.count() == 0 || s.absmax() == 0.0f) return;
  for (const auto& [step, count] : Steps(s)) {
    const double share = static_cast<double>(count) / static_cast<double>(s.count());
    figure.table.Add({site, model, "values", MagnitudeHistogram::MagnitudeOf(step * kBinsPerStep), share, s.count()});
  }
  for (const Format& format : kGrids) {
    const int largest = Info(format).max_code;
    for (int code = 1; code <= largest; ++code)
      figure.table.Add({site, model, Name(format), s.absmax() * static_cast<float>(code) / static_cast<float>(largest),
                        nullptr, nullptr});
  }
  const Format fewest = kGrids[2];
  const double half = 0.5 * s.absmax() / Info(fewest).max_code;
  uint64_t zeros = 0;
  for (const auto& [bin, count] : s.magnitudes.Counts())
    zeros += MagnitudeHistogram::MagnitudeOf(bin) < half ? count : 0;
  figure.caption += Formatted(" {} {} of {};", s.count(), site, model);
  figure.findings.push_back(Formatted("With one scale for {} of {}, {} rounds {:.1f} % of the values to 0.", site,
                                      model, Name(fewest),
                                      100.0 * static_cast<double>(zeros) / static_cast<double>(s.count())));
}

}  // namespace

std::vector<FigureData> Histograms(const Material& material) {
  FigureData figure{
      .name = "histograms",
      .title = "Magnitudes and the codes' grid",
      .caption =
          "Share of values by magnitude (no unit), in steps of a quarter of an octave, all layers, "
          "heads and positions together; values below 2^-16 of the largest are in the first step. Below: the values of "
          "8, 6 and 4-bit codes, with one scale for all. n, values:",
      .table = {.columns = {{"site", "site"},
                            {"model", "model"},
                            {"kind", "kind"},
                            {"magnitude", "magnitude"},
                            {"share", "share"},
                            {"n", "values"}}}};
  for (const ModelStatistics& of : material.statistics)
    AddSite("attn_logits", of.model, OutlierFigures(of.set.sites).AttentionLogits({}, {}, {}), figure);
  for (const ModelStatistics& of : material.statistics)
    AddSite("layer_out", of.model, OutlierFigures(of.set.sites).HiddenStates({}), figure);
  if (figure.table.rows.empty()) return {};
  figure.caption.back() = '.';
  return {figure};
}

}  // namespace tare
