// SPDX-License-Identifier: Apache-2.0
#include "experiments/stats/site_selection.h"

#include <algorithm>

#include "experiments/model/family.h"
#include "quant/base/error.h"

namespace tare {
namespace {

// "a[l0,h1],b" at the commas outside brackets.
std::vector<std::string_view> Items(std::string_view text) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '[' || text[i] == ']')) inside = text[i] == '[';
    if (i < text.size() && (text[i] != ',' || inside)) continue;
    items.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return items;
}

// An f32 rule has a selector and nothing else, so the grammar of plans is the grammar here.
Rule ParseItem(std::string_view item) {
  if (item.find('=') != item.npos) Fail("--sites '{}': got '=', expected a site with a selector at most", item);
  try {
    const Plan plan = Plan::Parse(std::string(item) + "=f32");
    if (plan.rules().size() == 1) return plan.rules().front();
  } catch (const Error& error) {
    Fail("--sites '{}': {}", item, error.what());
  }
  Fail("--sites '{}': got nothing, expected a site, for example attn_logits[l0-3]", item);
}

void CheckRange(const Rule& rule, const std::optional<IndexRange>& range, int base, int count, const char* what) {
  if (range && range->last >= base + count) {
    Fail("--sites '{}': selects {} {}, but this model has {} to {}", rule.text.substr(0, rule.text.find('=')), what,
         range->last, base, base + count - 1);
  }
}

}  // namespace

std::vector<Site> SitesOf(const ModelConfig& config) {
  std::vector<Site> sites;
  for (const SiteInfo& info : kSites) {
    if (info.site == Site::kCacheK || info.site == Site::kCacheV) continue;
    if (info.site == Site::kDifference && Maps(config) == 1) continue;
    sites.push_back(info.site);
  }
  return sites;
}

SiteSelection SiteSelection::Parse(std::string_view text, const ModelConfig& config) {
  SiteSelection selection;
  const std::vector<Site> known = SitesOf(config);
  if (text.empty()) {
    selection.canonical_ = "all";
    for (const Site site : known) selection.rules_.push_back(ParseItem(Name(site)));
    return selection;
  }
  for (const std::string_view item : Items(text)) {
    const Rule rule = ParseItem(item);
    for (const Site site : rule.sites) {
      if (std::ranges::find(known, site) == known.end())
        Fail("--sites '{}': a {} model's forward pass has no {}", item, config.family, Name(site));
      CheckRange(rule, rule.selector.heads, 0, HeadsOf(site, config), "head");
    }
    CheckRange(rule, rule.selector.layers, 0, config.layers, "layer");
    CheckRange(rule, rule.selector.maps, 1, Maps(config), "map");
    selection.canonical_ += (selection.canonical_.empty() ? "" : ",") + rule.text.substr(0, rule.text.find('='));
    selection.rules_.push_back(rule);
  }
  return selection;
}

bool SiteSelection::Wants(Site site, int layer) const {
  return std::ranges::any_of(rules_, [&](const Rule& rule) {
    return std::ranges::find(rule.sites, site) != rule.sites.end() &&
           (!rule.selector.layers || rule.selector.layers->Contains(layer));
  });
}

bool SiteSelection::Admits(Site site, int layer, int head, int map) const {
  return std::ranges::any_of(rules_, [&](const Rule& rule) { return rule.Matches(site, layer, head, map); });
}

}  // namespace tare
