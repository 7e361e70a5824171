// SPDX-License-Identifier: Apache-2.0
// The error of each format at a site, by bits, from statistics with --formats.
#include <algorithm>
#include <charconv>

#include "experiments/observe/statistics_report.h"
#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"
#include "quant/format/format.h"

namespace tare {
namespace {

constexpr std::string_view kShown[] = {"attn_logits", "probs", "layer_out",    "q",
                                       "k",           "v",     "down_proj.in", "down_proj.w"};
constexpr int kScaleBits = 32, kBlockScaleBits = 8;  // an f32 per group; a byte per block of formats with their own

// Bits per value: "int4/group64" takes 4 + 32/64. Scales of a row or more count nothing. Empty for an unknown format.
std::optional<double> BitsOf(const std::string& measured) {
  const size_t slash = std::min(measured.find('/'), measured.size());
  const std::optional<Format> format = ParseFormat(measured.substr(0, slash));
  if (!format) return {};
  const FormatInfo& info = Info(*format);
  if (info.block > 0) return info.bits + static_cast<double>(kBlockScaleBits) / info.block;
  const size_t digits = measured.find_first_of("0123456789", slash);
  int group = 0;
  if (digits != measured.npos) std::from_chars(measured.data() + digits, measured.data() + measured.size(), group);
  return info.bits + (group > 0 ? static_cast<double>(kScaleBits) / group : 0.0);
}

uint64_t ValuesOf(const StatisticsSet& set, std::string_view site) {
  uint64_t values = 0;
  for (const auto& [key, s] : set.sites) values += Name(key.site) == site ? s.outliers.count() : 0;
  return values;
}

// The mark of each model in the drawing, which takes them in the order of the rows.
std::string MarksOf(const std::vector<Json>& rows) {
  std::vector<std::string> models;
  for (const Json& row : rows) {
    if (!std::ranges::contains(models, row.at("model").get<std::string>())) models.push_back(row.at("model"));
  }
  constexpr const char* kFilled[] = {"filled", "hollow", "half filled"};
  std::string text;
  for (size_t i = 0; i < models.size(); ++i)
    text += Formatted("{}{} {}", i == 0 ? " Marks: " : ", ", models[i], kFilled[i % std::size(kFilled)]);
  return text + ".";
}

}  // namespace

std::vector<FigureData> ErrorAgainstBits(const Material& material) {
  FigureData figure{
      .name = "error",
      .title = "Error against bits",
      .caption =
          "Signal-to-quantization-noise ratio, 10 log10(sum x^2 / sum (x - y)^2) in dB (higher is better), against "
          "bits per value, including the scales of groups and blocks; all layers, heads and positions of a site "
          "together.",
      .table = Titled({"site", "model", "format", "bits: bits per value", "sqnr: SQNR (dB)", "n: values"}),
      .drawn = {"sqnr"}};
  for (const ModelStatistics& of : material.statistics) {
    const Json sites = OverviewSqnrJson(of.set, 0);
    for (const std::string_view site : kShown) {
      if (!sites.contains(site)) continue;
      for (const std::string& format : of.set.formats) {
        const auto sqnr = sites[std::string(site)].find(format + ".sqnr_db");
        const std::optional<double> bits = BitsOf(format);
        if (bits && sqnr != sites[std::string(site)].end())
          figure.table.Add({site, of.model, format, *bits, *sqnr, ValuesOf(of.set, site)});
      }
    }
  }
  if (figure.table.rows.empty()) return {};
  std::ranges::stable_sort(figure.table.rows, {}, [](const Json& row) {
    return std::ranges::find(kShown, row.at("site").get<std::string>()) - std::ranges::begin(kShown);
  });
  std::vector<std::string> counted;
  for (const Json& row : figure.table.rows) {
    const std::string n = Formatted(" {} {} of {};", row.at("n").dump(), row.at("site").get<std::string>(),
                                    row.at("model").get<std::string>());
    if (!std::ranges::contains(counted, n)) figure.caption += (counted.empty() ? " n, values:" : "") + n;
    counted.push_back(n);
  }
  figure.caption.back() = '.';
  figure.caption += MarksOf(figure.table.rows);
  const Json& worst =
      std::ranges::min(figure.table.rows, {}, [](const Json& row) { return NumberOr(row, "sqnr", INFINITY); });
  if (worst.at("sqnr").is_null()) return {figure};
  const auto text = [&](const char* column) { return worst.at(column).get<std::string>(); };
  figure.findings.push_back(
      Formatted("Of these sites, {} in {} has the lowest signal-to-noise ratio, {:.1f} dB with {}.", text("site"),
                text("model"), NumberAt(worst, "sqnr"), text("format")));
  return {figure};
}

}  // namespace tare
