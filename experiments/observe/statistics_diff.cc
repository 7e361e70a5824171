// SPDX-License-Identifier: Apache-2.0
// Pooled sites, bootstrap draws, the spread and p of a difference, Holm's p, changes in words, DiffJson and DiffTable.
#include "experiments/observe/statistics_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "experiments/significance/inference.h"
#include "experiments/significance/mean_error.h"
#include "experiments/table/table.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Folds = std::vector<PlainSums>;  // [SiteStatistics::kFolds]

std::map<SiteKey, Folds> Pooled(const std::map<SiteKey, SiteStatistics>& sites, const DiffOptions& options) {
  std::map<SiteKey, Folds> pooled;
  for (const auto& [key, s] : sites) {
    if (options.site.value_or(key.site) != key.site || (options.layer && options.layer != key.layer)) continue;
    Folds& folds = pooled[{key.site, key.layer}];
    folds.resize(s.folds.size());
    for (size_t i = 0; i < folds.size(); ++i) folds[i].Add(PlainSums::Of(s.folds[i]));
  }
  return pooled;
}

// How often each group of sequences is drawn, with as many draws as there are groups with data.
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

// The spread of a difference over the draws, without those that are not finite.
struct Spread {
  Json low, high;      // the 2.5 and 97.5 % order statistics
  double error = 0;    // standard deviation
  bool known = false;  // whether there are two draws
};

Spread SpreadOf(std::vector<double> draws) {
  std::erase_if(draws, [](double v) { return !std::isfinite(v); });
  if (draws.size() < 2) return {};
  std::ranges::sort(draws);
  const auto n = static_cast<double>(draws.size());
  const auto at = [&](double q) { return draws[static_cast<size_t>(std::round(q * (n - 1)))]; };
  return {at(0.025), at(0.975), MeanOfSamples(draws).deviation, true};
}

// p of the hypothesis of no difference; null if there is a difference and nothing varies.
Json ProbabilityOf(double difference, const Spread& spread, int64_t groups) {
  if (!spread.known || !std::isfinite(difference)) return {};
  if (difference == 0 && spread.error == 0) return 1.0;
  // The difference is equal in all groups but for rounding, as where a maximum is at a token that all texts have.
  if (spread.error <= 1e-12 * std::abs(difference)) return {};
  return StudentTwoSided(difference / spread.error, static_cast<int>(groups - 1));
}

// The maximum of a resample is never above that of all sequences, and most often equal to it, so it has no interval.
bool IsMaximum(std::string_view measure) { return measure == "absmax"; }

void Compare(const SiteKey& place, int64_t from, const std::vector<std::string>& names, const Folds& a, const Folds& b,
             bool paired, const DiffOptions& options, Json& rows) {
  const std::vector<int> once(a.size(), 1);
  const auto figures = [&](const Folds& folds, const std::vector<int>& times) {
    return SumMeasures(place.site, names, Sum(folds, times));
  };
  const Measures of_a = figures(a, once), of_b = figures(b, once);
  const int64_t groups = std::min(Groups(a), Groups(b));
  std::vector<std::vector<double>> draws(of_a.size());
  std::mt19937_64 random(options.seed);
  for (int draw = 0; draw < options.draws && groups > 1; ++draw) {
    ThrowIfStopped();
    const std::vector<int> times = Draw(a, random), other = paired ? times : Draw(b, random);
    const Measures drawn_a = figures(a, times), drawn_b = figures(b, other);
    for (size_t i = 0; i < draws.size(); ++i) {
      if (!IsMaximum(of_a[i].first)) draws[i].push_back(drawn_b[i].second - drawn_a[i].second);
    }
  }
  for (size_t i = 0; i < of_a.size(); ++i) {
    const double difference = of_b[i].second - of_a[i].second;
    const Spread spread = SpreadOf(std::move(draws[i]));
    rows.push_back({{"site", Name(place.site)},
                    {"layer", place.layer ? Json(*place.layer) : Json()},
                    {"from", from},
                    {"measure", of_a[i].first},
                    {"a", NumberOrNull(of_a[i].second)},
                    {"b", NumberOrNull(of_b[i].second)},
                    {"difference", NumberOrNull(difference)},
                    {"low", spread.low},
                    {"high", spread.high},
                    {"p", ProbabilityOf(difference, spread, groups)}});
  }
}

// Adds Holm's p over all rows that have a p; returns their number.
int64_t AddHolm(Json& rows) {
  std::vector<double> p;
  for (const Json& row : rows) {
    if (!row["p"].is_null()) p.push_back(row["p"]);
  }
  const std::vector<double> adjusted = Holm(p);
  size_t next = 0;
  for (Json& row : rows) row["p_holm"] = row["p"].is_null() ? Json() : Json(adjusted[next++]);
  return std::ssize(p);
}

std::string JobText(const Json& job) { return job.value("model", "a model without a name"); }

bool IsClear(const Json& row) { return !row["p_holm"].is_null() && row["p_holm"].get<double>() < 0.05; }

std::string ChangeText(const Json& row) {
  const auto short_text = [](const Json& value) { return Formatted("{:.3g}", value.get<double>()); };
  std::string text = short_text(row["difference"]);
  if (!row["low"].is_null()) text += Formatted(" [{}, {}]", short_text(row["low"]), short_text(row["high"]));
  return text + (IsClear(row) ? " *" : "");
}

// The measures that a table of a few rows is chosen from: a mean near 0 may change by any multiple of itself.
bool IsOfOutliers(std::string_view measure) { return IsMaximum(measure) || measure == "kurtosis"; }

// A size for measures in any unit: first whether the row is marked, then |b - a| / (|a| + |b|).
std::pair<bool, double> SizeOf(const Json& row) {
  const double sum = std::abs(row["a"].get<double>()) + std::abs(row["b"].get<double>());
  return {IsClear(row), sum == 0 ? 0.0 : std::abs(row["difference"].get<double>()) / sum};
}

}  // namespace

Json DiffJson(const StatisticsSet& a, const StatisticsSet& b, const DiffOptions& options) {
  if (a.formats != b.formats) Fail("tare stats diff: the files measured different --formats; expected the same");
  if (a.skip_first != b.skip_first)
    Fail("tare stats diff: the files have different --skip-first, {} and {}; expected the same", a.skip_first,
         b.skip_first);
  const bool paired = a.job.at("sequences_sha256") == b.job.at("sequences_sha256") && a.units == b.units;
  Json json{{"schema", "tare.stats.diff/2"}, {"a", a.job},    {"b", b.job},           {"paired", paired},
            {"draws", options.draws},        {"level", 0.95}, {"rows", Json::array()}};
  const std::vector<SitesFrom> sites_of_a = a.Both(), sites_of_b = b.Both();
  for (size_t i = 0; i < sites_of_a.size(); ++i) {
    const std::map<SiteKey, Folds> of_a = Pooled(sites_of_a[i].sites, options),
                                   of_b = Pooled(sites_of_b[i].sites, options);
    for (const auto& [place, folds] : of_a) {
      const auto other = of_b.find(place);
      if (other == of_b.end()) continue;
      Compare(place, sites_of_a[i].from, a.Sums(place.site), folds, other->second, paired, options, json["rows"]);
    }
  }
  if (json["rows"].empty()) Fail("tare stats diff: the files have no site and layer in common; try tare stats show");
  json["comparisons"] = AddHolm(json["rows"]);
  return json;
}

bool NothingDiffers(const Json& diff) {
  return std::ranges::all_of(diff["rows"], [](const Json& row) { return row["a"] == row["b"]; });
}

std::string DiffTable(const Json& diff, std::optional<size_t> most) {
  Table table{.columns = {{.name = "place", .side = Side::kAbove},
                          Left("measure", "measure"),
                          {.name = "a", .title = "A", .format = "{:.4g}", .width = 9, .none = "-"},
                          {.name = "b", .title = "B", .format = "{:.4g}", .width = 9, .none = "-"},
                          Left("change", "B - A [95 %]", 12)}};
  std::vector<const Json*> rows;
  for (const Json& row : diff["rows"]) {
    if (!row["difference"].is_null()) rows.push_back(&row);
  }
  std::string more;
  if (const size_t all = rows.size(); most && all > *most) {
    std::erase_if(rows, [](const Json* row) { return !IsOfOutliers((*row)["measure"].get<std::string>()); });
    std::ranges::stable_sort(rows, std::greater(), [](const Json* row) { return SizeOf(*row); });
    rows.resize(std::min(rows.size(), *most));
    more = Formatted(
        "\nthe {} largest of absmax and kurtosis, relative to A and B, those with * first;\n--all shows {} more\n",
        rows.size(), all - rows.size());
  }
  for (const Json* const of : rows) {
    const Json& row = *of;
    Json& shown = table.rows.emplace_back(row);
    const std::string site = row["site"];
    shown["place"] = site + (row["layer"].is_null() ? "" : ", layer " + row["layer"].dump()) + ", " +
                     PositionsText(site, row["from"]);
    shown["change"] = ChangeText(row);
  }
  return Formatted("A is {}, B is {}\n", JobText(diff["a"]), JobText(diff["b"])) + TableText(table, 2) + more;
}

}  // namespace tare
