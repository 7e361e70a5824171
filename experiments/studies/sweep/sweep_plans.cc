// SPDX-License-Identifier: Apache-2.0
// Sites swept together, the nearest granularity, plans' texts, a question's plans, a plan's row, versions' methods.
#include "experiments/studies/sweep/sweep.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "experiments/plan/plan_report.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/message.h"
#include "quant/plan/site.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

template <typename T>
void RequireDistinct(const std::vector<T>& values, const char* option) {
  std::set<T> seen;
  for (const T& value : values) {
    if (!seen.insert(value).second) FailUsage("{}: got {} twice, expected each once", option, value);
  }
}

std::span<const Site> SitesNamed(const std::string& site) { return ExpandSites(site.substr(0, site.find('['))); }

// Lists of sites that are swept together.
std::vector<std::vector<std::string>> Turns(const SweepQuestion& question) {
  const std::vector<std::string_view> named_sites = SplitRules(question.site);
  const std::vector<std::string> sites(named_sites.begin(), named_sites.end());
  if (question.sites == SweepSites::kTogether) return {sites};
  std::vector<std::vector<std::string>> turns;
  for (const std::string& site : sites) {
    const std::span<const Site> named = SitesNamed(site);
    const std::string selector = site.substr(std::min(site.find('['), site.size()));
    if (named.empty()) turns.push_back({site});  // to be refused by its name
    for (const Site one : named) {
      if (named.size() == 1 || !question.lacking.contains(one)) turns.push_back({std::string(Name(one)) + selector});
    }
  }
  return turns;
}

// How finely a kind divides a tensor; the coarsest is 0.
int Fineness(Kind kind) {
  using enum Granularity::Kind;
  const auto is = [kind](auto... kinds) { return ((kind == kinds) || ...); };
  if (kind == kTensor) return 0;
  if (is(kHead, kTokens, kTokensBy8, kTokensBy4x2)) return 1;
  if (is(kRow, kToken, kHeads, kChannel)) return 2;
  TARE_CHECK(is(kGroup, kBlock, kBlockChannel));
  return 3;
}

// Whether it may stand for another granularity: of queries, keys, values and caches not runs of a head's channels, nor
// of keys' tokens; of caches and probs not a tensor, whose scale is fixed.
bool StandsIn(Kind kind, Site site) {
  const SiteClass& site_class = ClassOf(site);
  if (kind == Kind::kBlockChannel) return site_class.sums_over_tokens;
  if (IsCache(site) || site == Site::kProbs) return kind != Kind::kGroup && kind != Kind::kTensor;
  const auto takes = [&](Kind one) { return std::ranges::contains(site_class.granularities, one); };
  return kind != Kind::kGroup || (takes(Kind::kTensor) && !takes(Kind::kHead));
}

// The nearest granularity that a site has, with the options and the N of the requested one.
std::string NearestGranularity(const std::string& site, const std::string& text) {
  const std::string wanted = text.substr(0, text.find('+')), options = text.substr(wanted.size());
  const std::optional<Granularity> granularity = ParseGranularity(wanted);
  const std::span<const Site> named = SitesNamed(site);
  if (!granularity || named.empty()) return text;  // to be refused where the plan is parsed
  const SiteClass& site_class = ClassOf(named.front());
  const bool fixed = named.front() == Site::kProbs && granularity->kind == Kind::kTensor;
  if (!fixed && std::ranges::contains(site_class.granularities, granularity->kind)) return text;
  std::vector<Kind> kinds;
  std::ranges::copy_if(site_class.granularities, std::back_inserter(kinds),
                       [&](Kind kind) { return StandsIn(kind, named.front()); });
  const int fineness = Fineness(granularity->kind);
  const Kind nearest = std::ranges::min(kinds, {}, [&](Kind kind) {
    const int difference = Fineness(kind) - fineness;
    return std::pair(std::abs(difference), -difference);
  });
  const bool has_n = Fineness(nearest) == 3;
  return Name(Granularity{nearest, has_n ? std::max(granularity->n, 1) : 0}) + options;
}

// The site's integer format with this many bits.
std::string FormatOfBits(const std::string& site, int bits) {
  const std::span<const Site> named = SitesNamed(site);
  const std::optional<Format> format = ClassOf(named.empty() ? Site::kAttnLogits : named.front()).OfBits(bits);
  if (!format || !IsInteger(*format))
    FailUsage("--bits: got {}, expected 16 (unquantized), 8, 6 or 4, of weights, k and v 3 or 2 too", bits);
  return Name(*format);
}

// "int4/group32+zero" of int4+zero and group32: a range of codes stands before the granularity's own options.
std::string WithScale(const std::string& name, const std::string& granularity) {
  const size_t range = name.starts_with(kGridMark) ? name.size() : std::min(name.find('+'), name.size());
  const size_t options = std::min(granularity.find('+'), granularity.size());
  return name.substr(0, range) + "/" + granularity.substr(0, options) + name.substr(range) +
         granularity.substr(options);
}

// format_of(site): a format's name. A format with its own blocks takes no granularity.
template <typename FormatOf>
std::string PlanText(const SweepQuestion& question, const std::vector<std::string>& sites,
                     const std::string& granularity, FormatOf format_of) {
  std::string plan = question.base;
  for (const std::string& site : sites) {
    const std::string name = format_of(site);
    const std::optional<Format> format = ParseMatrixFormat(name);
    const bool alone = question.sites == SweepSites::kTogether && sites.size() == 1;
    const bool scaled = !format || (HasCodes(*format) && Info(*format).block == 0);
    plan += Formatted("{}{}={}", plan.empty() ? "" : ",", site,
                      scaled ? WithScale(name, alone ? granularity : NearestGranularity(site, granularity)) : name);
  }
  return plan;
}

// One notice for each granularity that some sites replace by another.
void TellNearest(const std::vector<std::vector<std::string>>& turns, const std::vector<std::string>& granularities) {
  for (const std::string& wanted : granularities) {
    std::map<std::string, std::string> sites;  // by what they take
    for (const std::vector<std::string>& turn : turns) {
      for (const std::string& site : turn) {
        const std::string taken = NearestGranularity(site, wanted);
        if (taken != wanted) sites[taken] += (sites[taken].empty() ? "" : ", ") + site;
      }
    }
    for (const auto& [taken, names] : sites)
      Notice(Formatted("granularity {}: {}, the nearest available, is used for {}", wanted, taken, names));
  }
}

// Appends an item with a comma, unless it was seen before.
void Append(std::string& list, const std::string& item, std::set<std::string>& seen) {
  if (seen.insert(item).second) list += (list.empty() ? "" : ",") + item;
}

std::vector<Plan> PlansAsGiven(const std::vector<std::string>& texts) {
  std::vector<Plan> plans;
  for (const std::string& text : texts) {
    Plan plan = Plan::Parse(text);
    if (std::ranges::contains(plans, plan.canonical(), &Plan::canonical))
      FailUsage("--plan: got {} twice, expected each once", plan.canonical());
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace

std::vector<Plan> PlansOf(const SweepQuestion& question) {
  if (!question.plans.empty()) return PlansAsGiven(question.plans);
  if (question.site.empty()) FailUsage("--site: got '', expected a site; try attn_logits");
  RequireDistinct(question.bits, "--bits");
  RequireDistinct(question.formats, "--formats");
  RequireDistinct(question.granularities, "--granularity");
  std::vector<Plan> plans;
  std::set<std::string> seen;
  const std::vector<std::vector<std::string>> turns = Turns(question);
  const bool alone = question.sites == SweepSites::kTogether && turns.front().size() == 1;
  if (!alone) TellNearest(turns, question.granularities);
  for (const std::vector<std::string>& sites : turns) {
    for (const std::string& granularity : question.granularities) {
      const auto add = [&](const std::string& text) {
        Plan plan = Plan::Parse(text);
        if (seen.insert(plan.canonical()).second) plans.push_back(std::move(plan));
      };
      for (const std::string& format : question.formats) {
        const auto named = [&](const std::string&) { return format; };
        add(format == "f32" ? format : PlanText(question, sites, granularity, named));
      }
      for (const int bits : question.formats.empty() ? question.bits : std::vector<int>{}) {
        const auto of_bits = [bits](const std::string& site) { return FormatOfBits(site, bits); };
        add(bits == 16 ? "f32" : PlanText(question, sites, granularity, of_bits));
      }
    }
  }
  return plans;
}

PlanRow RowOf(const Plan& plan) {
  PlanRow row;
  row.looks_ahead = SpansRows(plan);
  row.exact = std::ranges::all_of(plan.rules(), &Rule::Exempts);
  std::set<std::string> sites, formats, granularities;
  for (const Rule& rule : plan.rules()) {
    if (rule.format == Format::kF32) continue;
    Append(row.site, PlaceText(rule), sites);
    Append(row.format, Name(rule.format), formats);
    Append(row.granularity, (HasCodes(rule.format) ? Name(rule.granularity) : "") + TextOf(rule.options),
           granularities);
    row.bits = CodeBits(rule);
  }
  return row;
}

std::string SweepCell::ShownPlan() const {
  if (!AsStored()) return Plan();
  return version && !version->plan.empty() ? version->plan : "as stored";
}

bool SweepCell::SawInput() const {
  const std::string input = key.value("input", std::string());
  return version && !input.empty() && version->calibration.contains(input);
}

void AddVersions(const Json& sizes, std::vector<SweepCell>& cells) {
  for (const Json& size : sizes) {
    const StoredVersion version{size.at("bits_per_weight"),    size.at("megabytes"),
                                size.value("plan", ""),        size.value("method", ""),
                                size.value("calibration", ""), size.value("quantized_bits", 0.0)};
    for (SweepCell& cell : cells) {
      if (size.at("model") == Json(cell.model)) cell.version = version;
    }
  }
}

}  // namespace tare
