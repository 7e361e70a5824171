// SPDX-License-Identifier: Apache-2.0
// Matching of rules; the parser is in plan.cc.
#include <algorithm>

#include "quant/format/hadamard.h"
#include "quant/plan/plan.h"

namespace tare {

const Hadamard* RuleOptions::Rotation(int64_t channels) const {
  return hadamard ? &PlanRotation(channels, *hadamard) : nullptr;
}

bool Selects(const IndexRanges& ranges, const std::optional<int>& index) {
  return ranges.empty() ||
         (index && std::ranges::any_of(ranges, [&](const IndexRange& range) { return range.Contains(*index); }));
}

std::vector<std::string_view> SplitRules(std::string_view text) {
  std::vector<std::string_view> rules;
  if (text.empty()) return rules;
  size_t begin = 0;
  bool selects = false;
  for (size_t i = 0; i < text.size(); ++i) {
    selects = text[i] == '[' || (selects && text[i] != ']');
    if (text[i] != ',' || selects) continue;
    rules.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  rules.push_back(text.substr(begin));
  return rules;
}

bool Rule::Matches(const SiteKey& key) const {
  return std::ranges::find(sites, key.site) != sites.end() && Selects(selector.layers, key.layer) &&
         Selects(selector.heads, key.head) && Selects(selector.maps, key.map) && Selects(selector.experts, key.expert);
}

const Rule* Plan::Match(const SiteKey& key) const {
  for (size_t i = rules_.size(); i-- > 0;) {
    if (rules_[i].Matches(key)) return &rules_[i];
  }
  return nullptr;
}

bool Plan::Touches(Site site) const {
  return std::ranges::any_of(rules_, [site](const Rule& rule) {
    return !rule.Exempts() && std::ranges::find(rule.sites, site) != rule.sites.end();
  });
}

bool Plan::NamesCaches() const {
  return std::ranges::any_of(rules_, [](const Rule& rule) { return IsCache(rule.sites.front()); });
}

bool Plan::HasStaticScales() const {
  return std::ranges::any_of(rules_,
                             [](const Rule& rule) { return rule.format != Format::kF32 && rule.options.static_scale; });
}

}  // namespace tare
