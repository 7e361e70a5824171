// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/plan_text.h"

#include <algorithm>
#include <set>

#include "quant/base/formatted.h"

namespace tare {
namespace {

using Sites = std::map<Site, std::vector<std::string>>;

void Add(std::string& rules, const std::string& rule) { rules += (rules.empty() ? "" : ",") + rule; }

// Rules for runs of layers that are not as `before` has them.
std::string RunsText(Site site, const std::vector<std::string>& layers, const std::string& before) {
  std::string rules;
  for (size_t i = 0; i < layers.size();) {
    size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[i]) ++last;
    const std::string range = last == i ? Formatted("{}", i) : Formatted("{}-{}", i, last);
    if (layers[i] != before) Add(rules, Formatted("{}[l{}]={}", Name(site), range, layers[i]));
    i = last + 1;
  }
  return rules;
}

// `before`: what earlier rules make of all its layers.
std::string SiteText(Site site, const std::vector<std::string>& layers, const std::string& before) {
  const auto all = [&](const std::string& value) { return Formatted("{}={}", Name(site), value); };
  if (std::ranges::all_of(layers, [&](const std::string& value) { return value == layers.front(); }))
    return layers.front() == before ? "" : all(layers.front());
  std::string best = RunsText(site, layers, before);
  for (const std::string& value : std::set(layers.begin(), layers.end())) {
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
  std::string best = rest("", kExact);
  std::set<std::string> values;
  for (const Site site : ExpandSites(group)) {
    if (sites.contains(site)) values.insert(sites.at(site).begin(), sites.at(site).end());
  }
  values.erase(kExact);
  for (const std::string& value : values) {
    const std::string text = rest(group + "=" + value, value);
    if (text.size() < best.size()) best = text;
  }
  return best;
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
    const std::string rules = SiteText(site, layers, kExact);
    if (!rules.empty()) Add(plan, rules);
  }
  return plan.empty() ? kExact : plan;
}

}  // namespace tare
