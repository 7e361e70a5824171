// SPDX-License-Identifier: Apache-2.0
// The pages of plans, sites and formats (docs/reference/) agree with the tables of sites, granularities, formats and
// presets, and with what can be executed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "experiments/plan/plan_report.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/plan/site.h"

namespace tare::plans_page_test {
namespace {

using Row = std::vector<std::string>;

// What stands between backticks, in order.
std::vector<std::string> Quoted(const std::string& cell) {
  std::vector<std::string> words;
  std::istringstream pieces(cell);
  bool inside = false;
  for (std::string piece; std::getline(pieces, piece, '`'); inside = !inside) {
    if (inside) words.push_back(piece);
  }
  return words;
}

// The cells of the page's tables whose heading begins so, less blanks at both ends.
std::vector<Row> TableOf(const std::string& name, const std::string& heading) {
  std::ifstream page(TARE_SOURCE_DIR "/docs/reference/" + name + ".md");
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| " + heading + " |")) inside = true;
    if (!line.starts_with("|")) inside = false;
    if (!inside || line.starts_with("|---") || line.starts_with("| " + heading + " |")) continue;
    std::istringstream cells(line.substr(1));
    Row row;
    for (std::string cell; std::getline(cells, cell, '|');) {
      const size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
      row.push_back(first == cell.npos ? "" : cell.substr(first, last - first + 1));
    }
    rows.push_back(row);
  }
  EXPECT_FALSE(rows.empty()) << heading;
  return rows;
}

bool CanBeExecuted(const std::string& text) {
  const Plan plan = Plan::Parse(text);
  ModelSites model{
      .family = "page", .layers = 2, .maps = 2, .tied_head = false, .decodes = true, .heads = {}, .weights = {}};
  for (const SiteInfo& info : kSites) {
    if (ClassOf(info.site).dimensions.contains('h')) model.heads[info.site] = {1, 2};
    if (IsOfScan(info.site)) model.layers_of[info.site] = {0, 1};
  }
  model.experts = text.contains("experts.") ? 2 : 0;
  const StaticSource statics = [](const Rule&, const SiteKey&) { return std::vector<float>{1.0f}; };
  ResolvedPlan(plan, model, Carrying::kSimulated, statics);  // every site can be simulated
  try {
    ResolvedPlan(plan, model, Carrying::kExecuted, statics);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What shares a scale of the site where kernels take it, in a plan of which all else is executed.
std::vector<std::string> ExecutedPer(Site site) {
  const SiteClass& c = ClassOf(site);
  const std::string maps = site == Site::kDifference ? "difference=int8/block64" : "probs=u8/block64",
                    rest =
                        "weights=int8/channel,linear_in=int8/token,q=int8/token,k=int8/token,v=int8/block64.channel," +
                        maps;
  std::vector<std::string> per;
  for (const Granularity::Kind kind : c.granularities) {
    std::string spelling(Spelling(kind)), sample = spelling;
    if (const size_t n = sample.find("<N>"); n != sample.npos) sample.replace(n, 3, "64");
    const std::string rule = Formatted("{}{}={}/{}", IsCache(site) ? "" : rest + ",", Name(site),
                                       Name(c.formats.front()), sample);  // decoding shows no maps
    const bool freezes =
        c.options.contains("static") && (sample == "tensor" || sample == "head" || sample == "channel");
    const bool follows = site == Site::kScanState && sample == "tensor";  // only with +static, simulated or not
    if (!follows && CanBeExecuted(rule)) {
      per.push_back(spelling);
    } else if (freezes && CanBeExecuted(rule + "+static")) {
      per.push_back(spelling + "+static");
    }
  }
  return per;
}

using Sets = std::map<std::string, std::vector<std::string>>;

// The words of a list, in order: those between backticks, and the members of the sets that it names.
std::vector<std::string> Members(const Sets& sets, const std::string& cell) {
  std::vector<std::string> words;
  std::istringstream pieces(cell);
  for (std::string piece; std::getline(pieces, piece, ',');) {
    const size_t first = piece.find_first_not_of(' ');
    const auto set = sets.find(first == piece.npos ? "" : piece.substr(first));
    for (const std::string& word : set == sets.end() ? Quoted(piece) : set->second) words.push_back(word);
  }
  return words;
}

TEST(PlansPage, EverySiteWithWhatAPlanMaySayOfIt) {
  Sets sets;
  for (const Row& row : TableOf("sites", "set")) sets[row.at(0)] = Quoted(row.at(1));
  std::map<std::string, Row> kinds;
  for (const Row& row : TableOf("sites", "kind")) {
    ASSERT_EQ(row.size(), 5u) << row[0];
    kinds[row[0]] = row;
  }
  std::map<std::string, int> seen;
  std::map<std::string, size_t> in_group;
  for (const Row& row : TableOf("sites", "site")) {
    ASSERT_EQ(row.size(), 4u) << row[0];
    ASSERT_TRUE(kinds.contains(row[3])) << row[3];
    const Row& kind = kinds[row[3]];
    for (const std::string& name : Quoted(row[0])) {
      const std::optional<Site> site = ParseSite(name);
      ASSERT_TRUE(site) << name;
      const SiteClass& c = ClassOf(*site);
      ++seen[name];
      EXPECT_EQ(row[2], c.dimensions.empty() ? "" : Formatted("`{}`", c.dimensions)) << name;
      std::vector<std::string> granularities, formats, options;
      for (const Granularity::Kind per : c.granularities) granularities.emplace_back(Spelling(per));
      for (const Format& format : c.formats) formats.push_back(Name(format));
      std::istringstream words{std::string(c.options)};
      for (std::string word; words >> word;) options.push_back(word);
      EXPECT_EQ(Quoted(kind[1]), granularities) << name;
      EXPECT_EQ(Members(sets, kind[2]), formats) << name;
      EXPECT_EQ(Members(sets, kind[3]), options) << name;
      EXPECT_EQ(Quoted(kind[4]), ExecutedPer(*site)) << name;
    }
    for (const std::string& group : Quoted(row[1])) in_group[group] += Quoted(row[0]).size();
  }
  for (const auto& [group, sites] : in_group) EXPECT_EQ(ExpandSites(group).size(), sites) << group;
  for (const SiteInfo& info : kSites) EXPECT_EQ(seen[std::string(info.name)], 1) << info.name;
}

TEST(PlansPage, GranularitiesFormatsAndPresets) {
  using Kind = Granularity::Kind;
  std::vector<std::string> spellings;
  for (const Kind kind : {Kind::kTensor, Kind::kHead, Kind::kRow, Kind::kToken, Kind::kHeads, Kind::kChannel,
                          Kind::kGroup, Kind::kBlock, Kind::kBlockChannel})
    spellings.push_back(Formatted("`{}`", Spelling(kind)));
  std::vector<std::string> on_page;
  for (const Row& row : TableOf("plans", "granularity")) on_page.push_back(row[0]);
  EXPECT_EQ(on_page, spellings);
  const std::vector<Row> formats = TableOf("formats", "format");
  std::vector<Row> integers, others;  // without the names that have a colon
  for (const auto& [format, spelling, info, type] : kFormats) {
    const std::string name = Formatted("`{}`", spelling);
    if (format == Format::kF32) {
      integers.push_back({name, "left as it is"});
    } else if (format == Format::kBf16) {
      integers.push_back({name, "rounded to bfloat16, without a scale; only in caches"});
    } else if (IsInteger(format)) {
      integers.push_back({name, Formatted("{} to {}", info.min_code, info.max_code)});
    } else if (format != Format::kListed) {
      const char* scale = info.statistic == Statistic::kMean ? "f32: mean absolute value"
                          : info.statistic == Statistic::kRootMeanSquare && info.together > 1
                              ? "f32: root mean square / 1.03"
                          : info.statistic == Statistic::kRootMeanSquare ? "f32: root mean square"
                          : type == ScaleType::kF32                      ? "f32: absmax"
                          : type == ScaleType::kTwoLevel                 ? "E4M3 for 16, f32 per tensor"
                                                                         : "E8M0 for 32";
      others.push_back({name, Formatted("{}", info.grid.largest), scale});
    }
  }
  EXPECT_EQ(formats, integers);
  std::vector<Row> on_the_page = TableOf("formats", "other format");
  for (Row& row : on_the_page) row.erase(row.begin() + 1);  // the grid, in words
  EXPECT_EQ(on_the_page, others);
  for (const Row& row : TableOf("plans", "preset"))
    EXPECT_EQ(Quoted(row[1])[0], Plan::Parse(Quoted(row[0])[0]).canonical()) << row[0];
}

TEST(PlansPage, EveryExampleWorksAsStated) {
  for (const Row& row : TableOf("plans", "plan"))
    EXPECT_EQ(row[2], CanBeExecuted(Quoted(row[0])[0]) ? "executed" : "simulated") << row[0];
}

}  // namespace
}  // namespace tare::plans_page_test
