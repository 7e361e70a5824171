// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/parts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

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

std::string RangeText(char letter, const std::optional<int>& only, const IndexRanges& otherwise) {
  if (only) return Formatted("{}{}", letter, *only);
  std::string text;
  for (const auto& [first, last] : otherwise)
    text += Formatted("{}{}{}-{}", text.empty() ? "" : ",", letter, first, last);
  return text;
}

std::string Bracketed(std::initializer_list<std::string> items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() || item.empty() ? "" : ",") + item;
  return text.empty() ? "" : "[" + text + "]";
}

// The part's own layer, head and map, and its rule's experts; the others if it has none.
std::string SelectorText(const Common& part, const Selector& others) {
  return Bracketed({RangeText('l', part.layer, others.layers), RangeText('h', part.head, others.heads),
                    RangeText('m', part.map, others.maps), RangeText('e', {}, others.experts)});
}

std::string NameOf(const Common& part, const Grain& grain) {
  const std::string site = part.site ? std::string(Name(*part.site)) : "",
                    text = site + Bracketed({RangeText('l', part.layer, {}), RangeText('h', part.head, {}),
                                             RangeText('g', part.group, {}), RangeText('m', part.map, {})});
  if (!text.empty()) return text;
  return grain.layer ? "outside layers" : grain.head || grain.head_group ? "without heads" : "of both maps";
}

// The heads of the places that `wanted` names.
template <typename Wanted>
IndexRanges HeadsAt(const std::vector<SiteKey>& places, const Wanted& wanted) {
  std::set<int> heads;
  for (const SiteKey& key : places) {
    if (key.head && wanted(key)) heads.insert(*key.head);
  }
  IndexRanges ranges;
  for (const int head : heads) {
    if (!ranges.empty() && ranges.back().last == head - 1)
      ranges.back().last = head;
    else
      ranges.push_back({head, head});
  }
  return ranges;
}

// The names in the part's rules: its site, or the plan's sites and groups.
std::string NameIn(const Rule& rule, const Common& part) {
  return part.site ? std::string(Name(*part.site)) : rule.name;
}

// Rules that match some place of the part.
std::vector<const Rule*> RulesOf(const Plan& plan, const std::vector<SiteKey>& places) {
  std::vector<const Rule*> rules;
  for (const Rule& rule : plan.rules()) {
    if (std::ranges::any_of(places, [&](const SiteKey& key) { return rule.Matches(key); })) rules.push_back(&rule);
  }
  return rules;
}

PlanPart PartOf(const Plan& plan, const Common& common, const Grain& grain, const std::vector<SiteKey>& places) {
  std::string alone, without = plan.canonical();
  std::set<std::string> exempt;
  for (const Rule* rule : RulesOf(plan, places)) {
    const std::string name = NameIn(*rule, common);
    Selector kept = rule->selector, taken_out;
    if (common.group) {
      kept.heads = HeadsAt(places, [&](const SiteKey& key) { return rule->Matches(key); });
      taken_out.heads =
          HeadsAt(places, [&](const SiteKey& key) { return std::ranges::contains(rule->sites, key.site); });
    }
    alone += (alone.empty() ? "" : ",") + name + SelectorText(common, kept) + rule->text.substr(rule->text.find('='));
    if (exempt.insert(name).second) without += Formatted(",{}{}=f32", name, SelectorText(common, taken_out));
  }
  return {NameOf(common, grain), Plan::Parse(alone), Plan::Parse(without)};
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

std::vector<PlanPart> PartsOf(const Plan& plan, const Grain& grain, const ModelSites& model) {
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
  if (parts.size() < 2)
    FailUsage("--plan: {} has {} to separate, expected two parts or more; try --by site,layer, or a plan of more sites",
              plan.canonical(), parts.empty() ? "nothing" : "one part, " + parts.front().name);
  return parts;
}

}  // namespace tare
