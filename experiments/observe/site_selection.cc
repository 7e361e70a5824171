// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/site_selection.h"

#include <algorithm>

#include "experiments/plan/resolved_plan.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// An f32 rule is only a selector, so the grammar of plans serves here.
Rule ParseItem(std::string_view item) {
  if (item.find('=') != item.npos)
    FailUsage("--sites '{}': got '=', expected a site, with or without a selector", item);
  try {
    const Plan plan = Plan::Parse(std::string(item) + "=f32");
    if (plan.rules().size() == 1) return plan.rules().front();
  } catch (const Error& error) {
    FailUsage("--sites '{}': {}", item, error.what());
  }
  FailUsage("--sites '{}': got nothing, expected a site, for example attn_logits[l0-3]", item);
}

}  // namespace

SiteSelection SiteSelection::Parse(std::string_view text, const ModelSites& model) {
  SiteSelection selection;
  if (text.empty()) {
    selection.canonical_ = "all";
    for (const SiteInfo& info : kSites) {
      if (model.Has(info.site) && !IsCache(info.site)) selection.rules_.push_back(RuleFor(info.site));
    }
    return selection;
  }
  for (const std::string_view item : SplitRules(text)) {
    const Rule rule = ParseItem(item);
    const std::string name = PlaceText(rule);
    for (const Site site : rule.sites) {
      if (IsCache(site))
        FailUsage("--sites '{}': got {}, expected a site that forward passes show, such as q, k or v", name,
                  Name(site));
      if (!model.Has(site) && rule.sites.size() > 1) continue;  // `weights` and `linear_in` are of those there are
      if (!model.Has(site))
        FailUsage("--sites '{}': got {}, expected a site of {} model", name, Name(site), WithArticle(model.family));
      CheckSelector(rule, site, model, Formatted("--sites '{}'", name));
      if (!rule.selector.experts.empty())
        FailUsage("--sites '{}': got some experts, expected all, whose weights are measured together; try {}", name,
                  Name(site));
    }
    selection.canonical_ += (selection.canonical_.empty() ? "" : ",") + name;
    selection.rules_.push_back(rule);
  }
  return selection;
}

bool SiteSelection::Wants(Site site, std::optional<int> layer) const {
  return std::ranges::any_of(rules_, [&](const Rule& rule) {
    return std::ranges::find(rule.sites, site) != rule.sites.end() && Selects(rule.selector.layers, layer);
  });
}

bool SiteSelection::Admits(const SiteKey& key) const {
  return std::ranges::any_of(rules_, [&](const Rule& rule) { return rule.Matches(key); });
}

}  // namespace tare
