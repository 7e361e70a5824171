// SPDX-License-Identifier: Apache-2.0
// Keys that places share, rules narrowed to a part, a part's name and plans, its check, ParseGrain and PartsOf.
#include "experiments/studies/attribution/attribution.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "quant/base/message.h"
#include "quant/plan/site.h"

namespace tare {
namespace {

constexpr std::pair<std::string_view, bool Grain::*> kWords[] = {{"site", &Grain::site},
                                                                 {"layer", &Grain::layer},
                                                                 {"head", &Grain::head},
                                                                 {"head-group", &Grain::head_group},
                                                                 {"map", &Grain::map}};

// What the places of a part have in common; empty for keys that the plan is not cut by, or that the site lacks.
struct Common {
  std::optional<Site> site;
  std::optional<int> layer, head, group, map;
  friend auto operator<=>(const Common&, const Common&) = default;
};

Common CommonOf(const SiteKey& key, const Grain& grain, const ModelSites& model) {
  Common common;
  if (grain.site) common.site = key.site;
  if (grain.layer) common.layer = key.layer;
  if (grain.head) common.head = key.head;
  if (grain.head_group) common.group = model.GroupAt(key);
  if (grain.map) common.map = key.map;
  return common;
}

std::vector<SiteKey> KeysOf(const ModelSites& model) {
  std::vector<SiteKey> all;
  for (const SiteInfo& info : kSites) std::ranges::copy(model.Keys(info.site), std::back_inserter(all));
  return all;
}

bool Quantizes(const Plan& plan, const SiteKey& key) {
  const Rule* rule = plan.Match(key);
  return rule != nullptr && !rule->Exempts();
}

// Narrows a rule to the part's own site, layer, head and map, as far as a rule of this name can.
Rule Narrowed(Rule rule, const Common& part) {
  if (part.site) rule.name = Name(*part.site), rule.sites = {*part.site};
  const auto narrow = [&](char letter, const std::optional<int>& index, IndexRanges& ranges) {
    if (index && ClassOf(rule.sites.front()).dimensions.contains(letter)) ranges = {{*index, *index}};
  };
  narrow('l', part.layer, rule.selector.layers);
  narrow('h', part.head, rule.selector.heads);
  narrow('m', part.map, rule.selector.maps);
  return rule;
}

std::string NameOf(const Common& part, const Grain& grain) {
  const std::pair<char, std::optional<int>> keys[] = {
      {'l', part.layer}, {'h', part.head}, {'g', part.group}, {'m', part.map}};
  std::string items;
  for (const auto& [letter, index] : keys) {
    if (index) items += Formatted("{}{}{}", items.empty() ? "" : ",", letter, *index);
  }
  const std::string site = part.site ? std::string(Name(*part.site)) : "";
  if (part.site || !items.empty()) return items.empty() ? site : Formatted("{}[{}]", site, items);
  return grain.layer ? "outside layers" : grain.head || grain.head_group ? "without heads" : "of both maps";
}

// The heads of the places that `wanted` names.
template <typename Wanted>
IndexRanges HeadsAt(const std::vector<SiteKey>& places, const Wanted& wanted) {
  IndexRanges heads;
  for (const SiteKey& key : places) {
    if (key.head && wanted(key)) heads.push_back({*key.head, *key.head});
  }
  return heads;
}

PlanPart PartOf(const Plan& plan, const Common& common, const Grain& grain, const std::vector<SiteKey>& places) {
  PlanPart part{.name = NameOf(common, grain), .alone = {}, .without = plan};
  std::set<std::string> exempt;
  const Plan matching = plan.Select([&](const Rule& rule) {
    return std::ranges::any_of(places, [&](const SiteKey& key) { return rule.Matches(key); });
  });
  for (const Rule& rule : matching.rules()) {
    Rule kept = Narrowed(rule, common), taken_out = Narrowed({.name = rule.name, .sites = rule.sites}, common);
    if (common.group) {
      kept.selector.heads = HeadsAt(places, [&](const SiteKey& key) { return rule.Matches(key); });
      taken_out.selector.heads =
          HeadsAt(places, [&](const SiteKey& key) { return std::ranges::contains(rule.sites, key.site); });
    }
    part.alone.Append(std::move(kept));
    if (exempt.insert(taken_out.name).second) part.without.Append(std::move(taken_out));
  }
  return part;
}

// A model may have keys used by one map beside keys used by both, and no selector names only the latter.
void CheckPart(const PlanPart& part, const Common& common, const Grain& grain, const Plan& plan,
               const ModelSites& model) {
  for (const SiteKey& key : KeysOf(model)) {
    const bool quantized = Quantizes(plan, key), of_part = CommonOf(key, grain, model) == common;
    if (Quantizes(part.alone, key) != (quantized && of_part) || Quantizes(part.without, key) != (quantized && !of_part))
      FailUsage("--by: {}: got a part that no selector separates from {}, expected separate parts; try --by site,layer",
                part.name, TextOf(key));
  }
}

}  // namespace

Grain ParseGrain(std::string_view text) {
  Grain grain;
  std::stringstream stream{std::string(text)};
  bool known = !text.empty() && !text.ends_with(',');
  for (std::string word; std::getline(stream, word, ',');) {
    const auto found = std::ranges::find(kWords, word, &std::pair<std::string_view, bool Grain::*>::first);
    known = known && found != std::end(kWords) && !(grain.*found->second);
    if (known) grain.*found->second = true;
  }
  if (!known)
    FailUsage("--by: got '{}', expected site, layer, head, head-group or map, each once, separated by commas", text);
  if (grain.head && grain.head_group) FailUsage("--by: got '{}', expected head or head-group, not both", text);
  return grain;
}

std::vector<PlanPart> PartsOf(const Plan& plan, const Grain& grain, const ModelSites& model, size_t fewest) {
  const std::vector<SiteKey> keys = KeysOf(model);
  std::set<Common> commons;
  for (const SiteKey& key : keys) {
    if (Quantizes(plan, key)) commons.insert(CommonOf(key, grain, model));
  }
  std::vector<PlanPart> parts;
  for (const Common& common : commons) {
    std::vector<SiteKey> places;
    std::ranges::copy_if(keys, std::back_inserter(places),
                         [&](const SiteKey& key) { return CommonOf(key, grain, model) == common && plan.Match(key); });
    parts.push_back(PartOf(plan, common, grain, places));
    CheckPart(parts.back(), common, grain, plan, model);
  }
  if (parts.size() < fewest)
    FailUsage("--plan: {} has {} to separate, expected two parts or more; try --by site,layer, or a plan of more sites",
              plan.canonical(), parts.empty() ? "nothing" : "one part, " + parts.front().name);
  return parts;
}

}  // namespace tare
