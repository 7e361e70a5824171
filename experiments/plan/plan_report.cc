// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/plan_report.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/shared_scales.h"
#include "kernels/cache/page_layout.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/plan/presets.h"
#include "quant/plan/site.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

constexpr double kUnquantized = 16, kOutlier = 32;

// How many values of a head's row, or of a channel's tokens, share a scale, one after another until all have one.
struct Sharing {
  int64_t row = 0;    // values in all; 0: a whole text shares it
  int64_t group = 0;  // values of one scale, but for a last one of fewer
};

Sharing SharingOf(const Rule& rule, int64_t width) {
  const auto [kind, n] = rule.granularity;
  if (kind == Kind::kToken) return {width, width};
  if (kind == Kind::kGroup) return {width, std::min<int64_t>(n, width)};
  if (kind == Kind::kBlockChannel) return {n, n};
  if (const int scales = ScalesOfTokens(kind); scales > 0) return {n * width, (n * width + scales - 1) / scales};
  if (kind == Kind::kChannel && IsCache(rule.sites.front())) return {kPageTokens, kPageTokens};
  return {};
}

// Bits of a scale (a byte in MX and NVFP4) and its zero point, minimum or mean. Caches store zero points as minima.
double ScaleBits(const Format& format, double of_f32, bool of_cache) {
  double bits = format.scale == ScaleType::kF32 ? of_f32 : 8;
  if (format.range == CodeRange::kZero) bits += of_cache ? of_f32 : Info(format).bits;
  if (format.range == CodeRange::kMin || format.range == CodeRange::kMean) bits += of_f32;
  return bits;
}

// Bits per value of a rule for `k`, `v` or a cache.
double BitsOf(const Rule* rule, int64_t width) {
  if (rule == nullptr || !HasCodes(rule->format)) return kUnquantized;
  const bool of_cache = IsCache(rule->sites.front());
  const bool in_runs = rule->granularity.kind == Kind::kGroup || rule->granularity.kind == Kind::kBlockChannel;
  const double of_f32 = of_cache && !in_runs ? 32 : kUnquantized;
  const auto [row, group] = SharingOf(*rule, width);
  const std::optional<double>& percent = rule->options.outliers;
  double beside = 0;  // bits of a row besides its codes
  for (int64_t first = 0; first < row; first += group) {
    beside += ScaleBits(rule->format, of_f32, of_cache);
    if (percent) beside += kOutlier * static_cast<double>(OutliersOf(std::min(group, row - first), *percent));
  }
  double bits = CodeBits(*rule) + (row == 0 ? 0 : beside / static_cast<double>(row));
  if (row == 0 && percent) bits += *percent / 100 * kOutlier;
  if (rule->options.sketch) bits += 1 + of_f32 / static_cast<double>(width);
  return bits;
}

bool Rounds(const Rule* rule) { return rule != nullptr && rule->format != Format::kF32; }

double MeanOf(const Plan& plan, const Plan& caches, const ModelSites& model, Site site, Site cache, double rounded) {
  double sum = 0, values = 0;
  for (const SiteKey& key : model.Keys(site)) {
    const Rule* const of_cache = caches.Match({.site = cache, .layer = key.layer});
    const SiteKey place = of_cache == nullptr ? key : SiteKey{cache, key.layer};
    const bool one_for_all = of_cache != nullptr && model.latents.contains(*key.layer);
    const double bits = BitsOf(Rounds(of_cache) || one_for_all ? of_cache : plan.Match(key), model.Width(place)),
                 held = model.Width(place) / (one_for_all ? model.Heads(site) : 1.0);
    sum += held * (Rounds(of_cache) ? std::lerp(kUnquantized, bits, rounded) : bits);
    values += held;
  }
  return values == 0 ? kUnquantized : sum / values;
}

// The plan in this mode, or why it cannot be carried out.
struct Attempt {
  std::optional<ResolvedPlan> resolved;
  Json refusal;  // null where it can

  Attempt(const Plan& plan, const ModelSites& model, Carrying carrying, const StaticSource& statics) {
    try {
      resolved.emplace(plan, model, carrying, statics);
    } catch (const Error& error) {
      refusal = error.what();
    }
  }
};

// "0-3,6" of {0, 1, 2, 3, 6}; "all" of `count` numbers; "-" of none.
std::string Ranges(const std::set<int>& numbers, int count) {
  if (numbers.empty()) return "-";
  if (std::ssize(numbers) == count) return "all";
  return RangesText({numbers.begin(), numbers.end()});
}

// The layers of a site where one rule holds in the same heads.
struct Holding {
  const Rule* rule;
  std::set<int> heads, layers;
};

std::vector<Holding> HoldingsOf(const Plan& plan, const ModelSites& model, Site site) {
  std::map<std::pair<std::optional<int>, const Rule*>, std::set<int>> heads;
  for (const SiteKey& key : model.Keys(site)) {
    const Rule* rule = plan.Match(key);
    if (rule == nullptr) continue;
    std::set<int>& of = heads[{key.layer, rule}];
    if (key.head) of.insert(*key.head);
  }
  std::vector<Holding> holdings;
  for (const auto& [where, of] : heads) {
    const auto& [layer, rule] = where;
    auto same = std::ranges::find_if(holdings, [&](const Holding& h) { return h.rule == rule && h.heads == of; });
    if (same == holdings.end()) same = holdings.insert(same, {rule, of, {}});
    if (layer) same->layers.insert(*layer);
  }
  std::ranges::stable_sort(holdings, {}, &Holding::rule);
  return holdings;
}

// How the site is computed in a plan that can be executed.
Json ExecutedBy(const ResolvedPlan& plan, Site site, const Holding& holding) {
  if (IsCache(site)) return "decode kernel";
  const std::optional<int> layer = holding.layers.empty() ? std::nullopt : std::optional(*holding.layers.begin());
  if (!IsWeight(site)) return plan.SimulatedAt({site, layer}) != nullptr ? "simulated" : "integer kernel";
  return plan.CodedAt(InputKeyOf({site, layer})) != nullptr ? "integer kernel" : "f32 product";
}

Json SiteJson(const Plan& plan, const ModelSites& model, Site site, const Holding& holding, const Attempt& executed) {
  const Rule& rule = *holding.rule;
  const bool f32 = rule.format == Format::kF32;
  Json json{{"site", Name(site)},
            {"layers", Ranges(holding.layers, model.layers)},
            {"heads", Ranges(holding.heads, model.Heads(site))},
            {"rule", holding.rule - plan.rules().data() + 1},
            {"format", Name(rule.format)},
            {"scale_per", HasCodes(rule.format) ? Json(Name(rule.granularity)) : Json()},
            {"options", TextOf(rule.options)},
            {"executed", Json()}};
  if (!f32 && !HasKernel(site)) json["executed"] = "no kernel";
  if (!f32 && executed.resolved) json["executed"] = ExecutedBy(*executed.resolved, site, holding);
  return json;
}

Json RulesJson(const Plan& plan, const ModelSites& model) {
  Json rules = Json::array();
  for (const Rule& rule : plan.rules()) {
    int holds = 0, overridden = 0;
    for (const Site site : rule.sites) {
      for (const SiteKey& key : model.Keys(site)) {
        if (rule.Matches(key)) ++(plan.Match(key) == &rule ? holds : overridden);
      }
    }
    rules.push_back({{"rule", rule.text}, {"places", holds}, {"overridden", overridden}});
  }
  return rules;
}

// Words after a heading.
std::string Headed(std::string_view heading, const std::string& words) {
  constexpr size_t kColumn = 11;
  return Wrapped(Formatted("{:<{}}{}", heading, kColumn, words), kColumn);
}

std::string PlacesText(const Json& rule) {
  const int places = rule["places"].get<int>(), overridden = rule["overridden"].get<int>();
  if (places == 0 && overridden == 0) return "matches nothing of this model";
  if (places == 0) return "holds nowhere: later rules match all of its tensors";
  const std::string text = Counted(places, "tensor");
  return overridden == 0 ? text : Formatted("{}, and {} where a later rule holds", text, overridden);
}

// Gives each reason only once.
std::string Verdict(const char* how, const Json& refusal, const Json& said = {}) {
  if (refusal.is_null()) return Headed(how, "yes");
  return Headed(how, "no: " + (refusal == said ? "for the same reason" : refusal.get<std::string>()));
}

}  // namespace

int CodeBits(const Rule& rule) {
  const FormatInfo& info = Info(rule.format);
  const Site site = rule.sites.front();
  if (info.grid.levels.empty() || IsWeight(site) || IsCache(site)) return info.bits;
  return std::bit_width(info.grid.levels.size() - 1);
}

std::optional<KeyValueBits> KeyValueBitsOf(const Plan& plan, const Plan& caches, const ModelSites& model,
                                           const std::optional<double>& rounded) {
  const bool any = plan.Touches(Site::kK) || plan.Touches(Site::kV) || caches.Touches(Site::kCacheK) ||
                   caches.Touches(Site::kCacheV);
  if (model.head_dim == 0 || !any) return std::nullopt;
  const double share = rounded.value_or(1);
  return KeyValueBits{.keys = MeanOf(plan, caches, model, Site::kK, Site::kCacheK, share),
                      .values = MeanOf(plan, caches, model, Site::kV, Site::kCacheV, share),
                      .rounded = rounded};
}

Json ToJson(const std::optional<KeyValueBits>& bits) {
  if (!bits) return Json::object();
  Json json{{"key_bits", bits->keys}, {"value_bits", bits->values}};
  if (bits->rounded) json["rounded"] = *bits->rounded;
  return json;
}

Json PlanJson(const Plan& plan, const ModelSites& model, const std::string& name, const StaticSource& statics) {
  const Attempt simulated(plan, model, Carrying::kSimulated, statics),
      executed(plan, model, Carrying::kExecuted, statics);
  Json json{{"schema", "tare.plan/1"},         {"plan", plan.canonical()}, {"hash", plan.hash()}, {"model", name},
            {"rules", RulesJson(plan, model)}, {"sites", Json::array()},   {"f32", Json::array()}};
  for (const SiteInfo& info : kSites) {
    for (const Holding& holding : HoldingsOf(plan, model, info.site))
      json["sites"].push_back(SiteJson(plan, model, info.site, holding, executed));
    const bool absent = IsCache(info.site) && !plan.NamesCaches();  // then nothing is decoded
    if (model.Has(info.site) && !plan.Touches(info.site) && !absent) json["f32"].push_back(info.name);
  }
  json["simulated"] = simulated.refusal;
  json["executed"] = executed.refusal;
  if (const PlanPreset* const recipe = RecipeOf(plan.canonical()))
    json["recipe"] = {{"name", recipe->name}, {"source", recipe->source}, {"note", recipe->note}};
  if (std::ranges::any_of(kSites, [&](const SiteInfo& info) { return IsWeight(info.site) && plan.Touches(info.site); }))
    json["stored"] = Attempt(plan, model, Carrying::kStored, statics).refusal;
  json["lookahead"] = simulated.resolved && simulated.resolved->SpansRows();
  json.update(ToJson(KeyValueBitsOf(plan, plan, model)));
  return json;
}

std::string PlanText(const Json& json) {
  std::string text = Formatted("{}, hash {}\n", json["model"].get<std::string>(), json["hash"].get<std::string>());
  if (json.contains("recipe")) {
    const Json& recipe = json["recipe"];
    text += Headed("recipe", Formatted("{}: {}; {}", recipe["name"].get<std::string>(),
                                       recipe["source"].get<std::string>(), recipe["note"].get<std::string>()));
  }
  int number = 0;
  for (const Json& rule : json["rules"])
    text += Formatted("  rule {}: {}: {}\n", ++number, rule["rule"].get<std::string>(), PlacesText(rule));
  if (!json["sites"].empty())
    text += Formatted("\n{:<19}{:<9}{:<10}{:>4}  {:<21}{}\n", "site", "layers", "heads", "rule", "format/scale per",
                      "with --executed");
  for (const Json& s : json["sites"]) {
    const std::string scale = s["scale_per"].is_null() ? "" : "/" + s["scale_per"].get<std::string>();
    std::string row = Formatted("{:<19}{:<9}{:<10}{:>4}  {:<20} {}", s["site"].get<std::string>(),
                                s["layers"].get<std::string>(), s["heads"].get<std::string>(), s["rule"].get<int>(),
                                s["format"].get<std::string>() + scale + s["options"].get<std::string>(),
                                s["executed"].is_null() ? "" : s["executed"].get<std::string>());
    while (row.ends_with(' ')) row.pop_back();
    text += row + "\n";
  }
  text += "\n" + Headed("f32", Listed(json["f32"], " ", [](const Json& site) { return site.get<std::string>(); })) +
          Verdict("simulated", json["simulated"]) + Verdict("executed", json["executed"], json["simulated"]);
  if (json.contains("stored")) text += Verdict("in a file", json["stored"], json["simulated"]);
  if (json.contains("key_bits"))
    text += Formatted("bits       {:.4g} per value of keys, {:.4g} of values\n", json["key_bits"].get<double>(),
                      json["value_bits"].get<double>());
  if (json["lookahead"].get<bool>()) text += "lookahead  a scale may span later tokens than the query\n";
  return text;
}

ModelSites AnyModel(const Plan& plan) {
  for (const Rule& rule : plan.rules()) {
    if (rule.selector != Selector{})
      FailUsage(
          "plan rule '{}': got layers, heads or maps and no model, expected the MODEL that has them; try "
          "tare plan RULES experiments/pair/novels-differential",
          rule.text);
  }
  ModelSites any{
      .family = "any", .layers = 1, .maps = 2, .tied_head = false, .decodes = true, .heads = {}, .weights = {}};
  for (const SiteInfo& info : kSites) {
    if (ClassOf(info.site).dimensions.contains('h')) any.heads[info.site].resize(1);
    if (IsOfScan(info.site)) any.layers_of[info.site] = {0};
  }
  return any;
}

}  // namespace tare
