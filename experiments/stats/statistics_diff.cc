// SPDX-License-Identifier: Apache-2.0
#include "experiments/stats/statistics_diff.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"
#include "quant/file/json.h"
#include "quant/observe/measures.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;
using Folds = std::vector<PlainSums>;  // [SiteStatistics::kFolds]

std::map<SiteKey, Folds> Pooled(const StatisticsSet& set, const DiffOptions& options) {
  std::map<SiteKey, Folds> pooled;
  for (const auto& [key, s] : set.sites) {
    if (options.site.value_or(key.site) != key.site || (options.layer && options.layer != key.layer)) continue;
    Folds& folds = pooled[{key.site, key.layer}];
    folds.resize(s.folds.size());
    for (size_t i = 0; i < folds.size(); ++i) folds[i].Add(PlainSums::Of(s.folds[i]));
  }
  return pooled;
}

// How often each group of sequences is drawn, as many draws as there are groups that have any.
std::vector<int> Draw(const Folds& folds, std::mt19937_64& random) {
  std::vector<size_t> seen;
  for (size_t i = 0; i < folds.size(); ++i) {
    if (folds[i].sequences > 0) seen.push_back(i);
  }
  std::vector<int> times(folds.size());
  for (size_t i = 0; i < seen.size(); ++i) ++times[seen[random() % seen.size()]];
  return times;
}

PlainSums Sum(const Folds& folds, const std::vector<int>& times) {
  PlainSums sum;
  for (size_t i = 0; i < folds.size(); ++i) {
    for (int t = 0; t < times[i]; ++t) sum.Add(folds[i]);
  }
  return sum;
}

int64_t Groups(const Folds& folds) {
  return std::ranges::count_if(folds, [](const PlainSums& fold) { return fold.sequences > 0; });
}

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// The 2.5 and 97.5 % order statistics of the draws that are numbers.
std::pair<Json, Json> Interval(std::vector<double>& draws) {
  std::erase_if(draws, [](double v) { return !std::isfinite(v); });
  if (draws.size() < 2) return {Json(), Json()};
  std::ranges::sort(draws);
  const auto at = [&](double q) {
    return draws[static_cast<size_t>(std::round(q * static_cast<double>(draws.size() - 1)))];
  };
  return {at(0.025), at(0.975)};
}

void Compare(const SiteKey& place, const std::vector<std::string>& names, const Folds& a, const Folds& b, bool paired,
             const DiffOptions& options, Json& rows) {
  const std::vector<int> once(a.size(), 1);
  const auto figures = [&](const Folds& folds, const std::vector<int>& times) {
    return SumMeasures(place.site, names, Sum(folds, times));
  };
  const Measures of_a = figures(a, once), of_b = figures(b, once);
  std::vector<std::vector<double>> draws(of_a.size());
  std::mt19937_64 random(options.seed);
  for (int draw = 0; draw < options.draws && Groups(a) > 1 && Groups(b) > 1; ++draw) {
    ThrowIfStopped();
    const std::vector<int> times = Draw(a, random), other = paired ? times : Draw(b, random);
    const Measures drawn_a = figures(a, times), drawn_b = figures(b, other);
    for (size_t i = 0; i < draws.size(); ++i) draws[i].push_back(drawn_b[i].second - drawn_a[i].second);
  }
  for (size_t i = 0; i < of_a.size(); ++i) {
    const auto [low, high] = Interval(draws[i]);
    rows.push_back({{"site", Name(place.site)},
                    {"layer", place.layer ? Json(*place.layer) : Json()},
                    {"measure", of_a[i].first},
                    {"a", NumberOrNull(of_a[i].second)},
                    {"b", NumberOrNull(of_b[i].second)},
                    {"difference", NumberOrNull(of_b[i].second - of_a[i].second)},
                    {"low", low},
                    {"high", high}});
  }
}

std::string Text(const Json& value) { return value.is_null() ? "-" : Formatted("{:.4g}", value.get<double>()); }

}  // namespace

Json DiffJson(const StatisticsSet& a, const StatisticsSet& b, const DiffOptions& options) {
  if (a.formats != b.formats) Fail("tare stats diff: the files measured different --formats; expected the same");
  const std::map<SiteKey, Folds> of_a = Pooled(a, options), of_b = Pooled(b, options);
  const bool paired = a.job.at("sequences_sha256") == b.job.at("sequences_sha256") && a.units == b.units;
  Json json{{"schema", "tare.stats.diff/1"}, {"a", a.job},    {"b", b.job},           {"paired", paired},
            {"draws", options.draws},        {"level", 0.95}, {"rows", Json::array()}};
  for (const auto& [place, folds] : of_a) {
    const auto other = of_b.find(place);
    if (other == of_b.end()) continue;
    Compare(place, a.Sums(place.site), folds, other->second, paired, options, json["rows"]);
  }
  if (json["rows"].empty()) Fail("tare stats diff: the files have no site and layer in common; try tare stats show");
  return json;
}

std::string DiffTable(const Json& diff) {
  std::string text = Formatted("{:<14}{:>6} {:<28}{:>12}{:>12}{:>12}  {}\n", "site", "layer", "measure", "A", "B",
                               "B - A", "95 % interval");
  for (const Json& row : diff["rows"]) {
    if (row["difference"].is_null()) continue;
    const bool has_interval = !row["low"].is_null();
    const bool clear = has_interval && (row["low"].get<double>() > 0 || row["high"].get<double>() < 0);
    text +=
        Formatted("{:<14}{:>6} {:<28}{:>12}{:>12}{:>12}  {}{}\n", row["site"].get<std::string>(),
                  row["layer"].is_null() ? "-" : row["layer"].dump(), row["measure"].get<std::string>(), Text(row["a"]),
                  Text(row["b"]), Text(row["difference"]),
                  has_interval ? Formatted("[{}, {}]", Text(row["low"]), Text(row["high"])) : "-", clear ? " *" : "");
  }
  return text;
}

}  // namespace tare
