// SPDX-License-Identifier: Apache-2.0
// The shortest rules of layers, sites and groups, the parts and levels of plans, their losses, a choice as a plan.
#include "experiments/studies/search/search.h"

#include <algorithm>
#include <set>
#include <utility>

#include "experiments/model/plan_run.h"
#include "experiments/plan/plan_report.h"
#include "experiments/studies/attribution/attribution.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using PartPlace = std::pair<Site, std::optional<int>>;
using Sites = std::map<Site, std::vector<std::string>>;  // the level of each layer; "": it lacks the site

void Add(std::string& rules, const std::string& rule) { rules += (rules.empty() ? "" : ",") + rule; }

// Rules for runs of layers that differ from `before`.
std::string RunsText(Site site, const std::vector<std::string>& layers, const std::string& before) {
  std::string rules;
  for (size_t i = 0; i < layers.size();) {
    size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[i]) ++last;
    const std::string range = last == i ? Formatted("{}", i) : Formatted("{}-{}", i, last);
    if (layers[i] != before && !layers[i].empty()) Add(rules, Formatted("{}[l{}]={}", Name(site), range, layers[i]));
    i = last + 1;
  }
  return rules;
}

// `before`: the level that earlier rules give all its layers.
std::string SiteText(Site site, const std::vector<std::string>& layers, const std::string& before) {
  const auto all = [&](const std::string& value) { return Formatted("{}={}", Name(site), value); };
  std::set<std::string> values(layers.begin(), layers.end());
  values.erase("");
  if (values.size() == 1) return *values.begin() == before ? "" : all(*values.begin());
  std::string best = RunsText(site, layers, before);
  for (const std::string& value : values) {
    if (value == before) continue;
    const std::string text = all(value) + "," + RunsText(site, layers, value);
    if (text.size() < best.size()) best = text;
  }
  return best;
}

std::string GroupText(const Sites& sites, const std::string& group) {
  const auto rest = [&](std::string rules, const std::string& before) {
    for (const Site site : ExpandSites(group)) {
      const auto found = sites.find(site);
      const std::string text = found == sites.end() ? "" : SiteText(site, found->second, before);
      if (!text.empty()) Add(rules, text);
    }
    return rules;
  };
  std::string best = rest("", kUnquantized);
  std::set<std::string> values;
  for (const Site site : ExpandSites(group)) {
    if (sites.contains(site)) values.insert(sites.at(site).begin(), sites.at(site).end());
  }
  values.erase(kUnquantized);
  values.erase("");
  for (const std::string& value : values) {
    const std::string text = rest(group + "=" + value, value);
    if (text.size() < best.size()) best = text;
  }
  return best;
}

PartLevel LevelOf(const Rule& rule, double operands) {
  const int bits = CodeBits(rule);
  return {LevelText(rule), bits, bits == kUnquantizedBits ? Plan() : Plan().Append(rule), {bits * operands, 0}};
}

void RequireWholeSites(const Plan& plan) {
  for (const Rule& rule : plan.rules()) {
    if (!rule.selector.heads.empty() || !rule.selector.maps.empty() || !rule.selector.experts.empty())
      FailUsage(
          "plan rule '{}': got heads, maps or experts, expected only sites and layers, which a search distinguishes; "
          "try tare "
          "attribute --by head",
          rule.text);
  }
}

}  // namespace

std::string ShortRules(const Sites& sites) {
  std::string plan;
  for (const char* group : {"weights", "linear_in"}) {
    const std::string rules = GroupText(sites, group);
    if (!rules.empty()) Add(plan, rules);
  }
  for (const auto& [site, layers] : sites) {
    if (std::ranges::contains(ExpandSites("weights"), site) || std::ranges::contains(ExpandSites("linear_in"), site))
      continue;
    const std::string rules = SiteText(site, layers, kUnquantized);
    if (!rules.empty()) Add(plan, rules);
  }
  return plan.empty() ? kUnquantized : plan;
}

std::vector<SearchPart> SearchParts(const std::vector<Plan>& plans, const ModelConfig& config, int64_t window) {
  const ModelSites model = ModelSitesOf(config);
  std::map<PartPlace, SearchPart> parts;
  for (const Plan& plan : plans) {
    if (plan.empty()) continue;
    RequireWholeSites(plan);
    for (const PlanPart& cut : PartsOf(plan, {.site = true, .layer = true}, model)) {
      const Rule& rule = cut.alone.rules().back();  // they are all of this place
      if (rule.options.outliers || rule.options.sketch)
        FailUsage(
            "plan rule '{}': got +outliers or +sketch, expected codes alone, whose bits a search counts; try it "
            "without them",
            rule.text);
      const PartPlace place{rule.sites.front(), rule.selector.layers.empty()
                                                    ? std::nullopt
                                                    : std::optional(rule.selector.layers.front().first)};
      SearchPart& part = parts[place];
      if (part.levels.empty()) {
        part = {cut.name, place.first, place.second, OperandsPerToken(place.first, place.second, config, window), {}};
        part.levels.push_back({kUnquantized, kUnquantizedBits, {}, {kUnquantizedBits * part.operands, 0}});
      }
      if (!std::ranges::contains(part.levels, LevelText(rule), &PartLevel::rule))
        part.levels.push_back(LevelOf(rule, part.operands));
    }
  }
  if (parts.empty()) FailUsage("--plan: got none that quantizes, expected one or more; try --plan int8 --plan int4");
  std::vector<SearchPart> list;
  for (auto& [place, part] : parts) list.push_back(std::move(part));
  return list;
}

std::vector<std::string> SensitivityPlans(const std::vector<SearchPart>& parts) {
  std::vector<std::string> plans{kUnquantized};
  for (const SearchPart& part : parts) {
    for (const PartLevel& level : part.levels) {
      if (!level.plan.empty()) plans.push_back(level.plan.canonical());
    }
  }
  return plans;
}

std::vector<size_t> LevelsOf(const Plan& plan, const std::vector<SearchPart>& parts, const ModelConfig& config,
                             int64_t window) {
  const std::vector<SearchPart> of_plan = SearchParts({plan}, config, window);
  std::vector<size_t> levels;
  for (const SearchPart& part : parts) {
    const auto found = std::ranges::find(of_plan, part.name, &SearchPart::name);
    if (found == of_plan.end()) return {};
    const auto level = std::ranges::find(part.levels, found->levels.back().rule, &PartLevel::rule);
    TARE_CHECK(level != part.levels.end());
    levels.push_back(static_cast<size_t>(level - part.levels.begin()));
  }
  return levels;
}

void SetLosses(const std::vector<SweepCell>& cells, std::vector<SearchPart>& parts) {
  std::map<std::string, double> losses;
  for (const SweepCell& cell : cells) losses[cell.Plan()] = cell.figures.list.front().value;
  for (SearchPart& part : parts) {
    for (PartLevel& level : part.levels) level.of.loss = losses.at(level.plan.canonical());
  }
}

std::string PlanAt(const std::vector<SearchPart>& parts, const std::vector<size_t>& levels, const ModelConfig& config) {
  const ModelSites model = ModelSitesOf(config);
  std::map<Site, std::vector<std::string>> sites;
  const auto add = [&](Site site) {
    if (!model.Has(site)) return;
    auto& levels_of =
        sites.try_emplace(site, model.Keys(site).front().layer ? model.layers : 1, kUnquantized).first->second;
    for (int layer = 0; layer < std::ssize(levels_of); ++layer)
      if (!model.HasIn(site, layer)) levels_of[static_cast<size_t>(layer)].clear();
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const char* group : {"weights", "linear_in"}) {
      if (std::ranges::contains(ExpandSites(group), parts[i].site)) std::ranges::for_each(ExpandSites(group), add);
    }
    add(parts[i].site);
    sites.at(parts[i].site)[static_cast<size_t>(parts[i].layer.value_or(0))] = parts[i].levels[levels[i]].rule;
  }
  return ShortRules(sites);
}

}  // namespace tare
