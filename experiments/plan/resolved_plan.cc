// SPDX-License-Identifier: Apache-2.0
// Refusals, in order: a rule's rotations, groups; a plan's weights, files, inputs; checks others call; the plan itself.
#include "experiments/plan/resolved_plan.h"

#include <algorithm>
#include <iterator>

#include "kernels/linear/packed_matrix.h"
#include "quant/base/message.h"
#include "quant/format/quantized_matrix.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

// Sites whose rows have a head's width.
constexpr std::array kOfHeads{Site::kQ, Site::kK, Site::kV, Site::kCacheK, Site::kCacheV};

// All weights of linear layers, in the order in which they are checked.
std::vector<Site> LinearWeights() {
  std::vector<Site> all{Site::kLmHeadW, Site::kLambdaProjW};
  std::ranges::copy(ExpandSites("weights"), std::back_inserter(all));
  return all;
}

// The suggestion for a site that a model lacks.
std::string_view WhatItHas(Site site) {
  if (site == Site::kQNorm || site == Site::kKNorm) return "q or k";
  return site == Site::kAttnGate ? "head_out" : "the plan without it";
}

// The text to try: the largest group, up to the rule's, that divides the rows of all weights where the rule holds and
// that the integer kernels accept; and how the weights at this place can have their own.
std::string GroupThatFits(const Rule& rule, const ResolvedPlan& plan, const ModelSites& model, const SiteKey& here) {
  std::vector<int64_t> rows;
  for (const auto& [key, stored] : model.weights) {
    if (plan.RuleAt(key) == &rule) rows.push_back(stored.in);
  }
  const auto largest = [&rule](const std::vector<int64_t>& of) {
    int n = rule.granularity.n / static_cast<int>(PackedMatrix::kRecord) * static_cast<int>(PackedMatrix::kRecord);
    while (n > 0 && !std::ranges::all_of(of, [n](int64_t in) { return in % n == 0; })) n -= PackedMatrix::kRecord;
    return n == 0 ? Granularity{Kind::kChannel} : Granularity{Kind::kGroup, n};
  };
  return Formatted("{}, or a rule after it for these weights alone: {}={}", Name(largest(rows)), Name(here.site),
                   TextOf(rule.format, largest({model.weights.at(here).in})));
}

// "+hadamard16", of a rule or of a checkpoint's codes.
std::string RotationText(const Hadamard* rotation) {
  if (rotation == nullptr) return "no rotation";
  const auto run = static_cast<int>(rotation->run());
  return TextOf(RuleOptions{.hadamard = RotatedRuns{rotation->run() == rotation->size() ? 0 : run}});
}

// Refuses a rotation that is not known of rows of so many values.
void CheckRotation(const Rule* rule, const SiteKey& place, int64_t in) {
  if (rule == nullptr) return;
  try {
    rule->options.Rotation(in);
  } catch (const Error& error) {
    FailUsage("plan rule '{}': {}: {}", rule->text, TextOf(place), error.what());
  }
}

// What RefuseRule says of an input that the integer kernels do not multiply; nothing of one that they do.
struct Refused {
  const Rule& rule;
  std::string got, expected, attempt;
};
using Refusable = std::optional<Refused>;

// Products of integers need the same rotation of weights and inputs.
Refusable RefusedRotation(const Rule* rule, const SiteKey& key, const StoredWeight& stored, const Rule& input) {
  const Hadamard* const of_weight = rule != nullptr ? rule->options.Rotation(stored.in) : stored.rotation;
  if (input.options.Rotation(stored.in) == of_weight) return {};
  return Refused{input, RotationText(input.options.Rotation(stored.in)),
                 Formatted("that of {}, {}", TextOf(key), RotationText(of_weight)),
                 "the same +hadamard for weights and their inputs, or simulating it"};
}

// As RefusedRotation, where it is not known how the weights are stored.
Refusable RefusedOption(const Rule* rule, const Rule& input) {
  if (rule == nullptr || rule->options.hadamard.has_value() == input.options.hadamard.has_value()) return {};
  return Refused{input, input.options.hadamard ? "+hadamard" : "no rotation", "that of '" + rule->text + "'",
                 "the same +hadamard for weights and their inputs, or simulating it"};
}

// Codes in groups that the integer kernels cannot use.
Refusable RefusedCodes(const ResolvedPlan& plan, const ModelSites& model, const SiteKey& key,
                       const StoredWeight& stored, const Rule& input) {
  const Rule* rule = plan.RuleAt(key);
  const Rule& named = rule != nullptr ? *rule : input;
  const Format format = rule != nullptr ? rule->format : *stored.format;
  if (!AsStepCodes(format))
    return Refused{named, Formatted("{} in {}", TextOf(key), Name(format)),
                   "values that are integers times a step, as integer kernels need",
                   "simulating it, or mxfp4 or mxint8"};
  const int64_t group = rule != nullptr ? GroupOf(rule->granularity, stored.in) : stored.group;
  if (stored.in % group != 0) {
    const int smaller = Info(Format::kNvFp4).block;
    const bool fits = rule != nullptr && stored.in % smaller == 0;
    return Refused{
        named, Formatted("blocks of {} for rows of {} weights of {}", group, stored.in, TextOf(key)), "a divisor",
        fits ? Formatted("{}=nvfp4 after it, of blocks of {}, or simulating it", Name(key.site), smaller) : kSimulate};
  }
  if (group == stored.in || group % PackedMatrix::kRecord == 0) return {};
  const std::string expected = Formatted("multiples of {} or one scale per channel", PackedMatrix::kRecord);
  const std::string got = Formatted("groups of {} in {}", group, TextOf(key));
  if (rule == nullptr || (stored.format && stored.scheme.empty())) return Refused{input, got, expected, kSimulate};
  return Refused{*rule, got, expected, GroupThatFits(*rule, plan, model, key)};
}

std::string StoredText(const StoredWeight& stored) {
  return stored.scheme.empty() ? "floating point" : stored.scheme + ", whose codes are no integers in equal groups";
}

// Whether a scale belongs to one token, row or group, regardless of other rows.
bool IsByRow(const Rule& rule) {
  const Kind kind = rule.granularity.kind;
  if (rule.sites.front() == Site::kProbs) return true;
  return kind == Kind::kRow || kind == Kind::kToken || kind == Kind::kHeads || kind == Kind::kGroup ||
         kind == Kind::kBlock || rule.options.static_scale;
}

// The magnitude that becomes the largest code by the scale that another tool's file has for these inputs.
std::optional<float> StoredClip(const Rule& rule, const SiteKey& key, const ModelSites& model) {
  const std::optional<Site> weight = WeightOf(key.site);
  if (!weight || rule.granularity.kind != Kind::kTensor || rule.options.percentile || rule.options.mse)
    return std::nullopt;
  const auto stored = model.weights.find({*weight, key.layer});
  if (stored == model.weights.end() || !stored->second.input_scale) return std::nullopt;
  return *stored->second.input_scale * Info(rule.format).Largest();
}

// Refuses rules for weights that do not fit how the model stores them.
void CheckWeights(const ResolvedPlan& plan, const ModelSites& model) {
  for (const auto& [key, stored] : model.weights) {
    const Rule *rule = plan.RuleAt(key), *input = plan.RuleAt(InputKeyOf(key));
    for (const Rule* const rotated : {rule, input}) CheckRotation(rotated, key, stored.in);
    if (rule == nullptr) continue;
    const int64_t group = GroupOf(rule->granularity, stored.in);
    if (stored.in % group != 0 && Info(rule->format).block == 0)
      RefuseRule(*rule, Formatted("{} for rows of {} weights of {}", Name(rule->granularity), stored.in, TextOf(key)),
                 "a divisor", GroupThatFits(*rule, plan, model, key));
    const Hadamard* const rotation = rule->options.Rotation(stored.in);
    if (stored.format && stored.scheme.empty() &&
        (stored.format != rule->format || stored.group != group || stored.rotation != rotation))
      RefuseRule(*rule,
                 Formatted("{} that is already {} in groups of {}{}", TextOf(key), Name(*stored.format), stored.group,
                           stored.rotation == nullptr ? "" : " with " + RotationText(stored.rotation)),
                 "the format of this checkpoint's codes, or a checkpoint without codes", "a plan without it");
  }
}

// Refuses a plan whose rules for weights cannot become codes in a file.
void CheckStored(const ResolvedPlan& plan, const ModelSites& model) {
  bool quantizes = false;
  for (const Site weight : LinearWeights()) {
    for (const SiteKey& key : model.Keys(weight)) quantizes |= plan.RuleAt(key) != nullptr;
  }
  if (!quantizes)
    FailUsage("plan '{}': got no rule for weights, expected one; try weights=int4/channel", plan.plan().canonical());
  if (const Rule* const head = plan.RuleAt({Site::kLmHeadW})) CheckUse(*head, Use::kStored, model);
}

// Why the integer kernels do not multiply an input by these weights, beside what its rule is (Use::kInput).
Refusable RefusedInput(const ResolvedPlan& plan, const ModelSites& model, const SiteKey& key, const Rule& input) {
  if (HasTensorScale(input) && (IsOfExperts(key.site) || key.site == Site::kLmHeadW))
    return Refused{input, "a scale of all tokens at " + TextOf(key), "one of those that meet its weights", kSimulate};
  const auto found = model.weights.find(key);
  if (found == model.weights.end()) return RefusedOption(plan.RuleAt(key), input);
  const StoredWeight& stored = found->second;
  if (plan.RuleAt(key) == nullptr && !stored.format)
    return Refused{input, TextOf(key) + " in " + StoredText(stored), "weights in integers with it",
                   "it with weights=int8/channel, or simulating it"};
  if (Refusable rotation = RefusedRotation(plan.RuleAt(key), key, stored, input)) return rotation;
  return RefusedCodes(plan, model, key, stored, input);
}

// Refuses rules for sites without an integer kernel, and integers of inputs of linear layers without one. Gives the
// places of other inputs without one. Attention: executed_plan.cc.
std::set<SiteKey> CheckExecuted(const ResolvedPlan& plan, const ModelSites& model) {
  for (const Rule& rule : plan.plan().rules()) CheckUse(rule, Use::kExecuted, model);
  std::set<SiteKey> simulated;
  for (const Site weight : LinearWeights()) {
    for (const SiteKey& key : model.Keys(weight)) {
      const SiteKey place = InputKeyOf(key);
      const Rule* const input = plan.RuleAt(place);
      if (input == nullptr || simulated.contains(place)) continue;
      const bool integers = IsInteger(input->format);
      if (integers) CheckUse(*input, Use::kInput);
      const Refusable refused = RefusedInput(plan, model, key, *input);
      if (refused && integers) RefuseRule(refused->rule, refused->got, refused->expected, refused->attempt);
      if (refused || RefusalOf(*input, Use::kInput) != nullptr) simulated.insert(place);
    }
  }
  return simulated;
}

}  // namespace

SiteKey InputKeyOf(const SiteKey& weight) {
  const Site input = InputOf(weight.site);
  return {
      .site = input, .layer = weight.layer, .head = input == Site::kExpertsDownIn ? std::optional(0) : std::nullopt};
}

void CheckSelector(const Rule& rule, Site site, const ModelSites& model, const std::string& where) {
  const auto check = [&](const IndexRanges& ranges, int first, int count, const char* what) {
    for (const IndexRange& range : ranges) {
      if (range.first < first + count) continue;
      FailUsage("{}: got {} {} of {}, expected {} to {}; try a selector that this {} model has", where, what,
                range.first, Name(site), first, first + count - 1, model.family);
    }
  };
  check(rule.selector.layers, 0, model.layers, "layer");
  const auto some = model.layers_of.find(site);
  if (some != model.layers_of.end() && rule.sites.size() == 1 &&
      std::ranges::none_of(some->second, [&](int layer) { return Selects(rule.selector.layers, layer); }))
    FailUsage("{}: got layers without {}, expected some of {} {}; try a selector that this {} model has", where,
              Name(site), some->second.size() > 1 ? "layers" : "layer",
              Listed(some->second, ", ", [](int layer) { return std::to_string(layer); }, " and "), model.family);
  check(rule.selector.heads, 0, model.Heads(site), "head");
  check(rule.selector.maps, 1, model.maps, "map");
  check(rule.selector.experts, 0, model.experts, "expert");
  if (rule.sites.size() > 1 || rule.selector == Selector{}) return;
  const std::vector<SiteKey> keys = model.Keys(site);
  if (!keys.empty() && std::ranges::none_of(keys, [&](const SiteKey& key) { return rule.Matches(key); }))
    FailUsage("{}: got a selector that fits no place of this {} model, expected one that does; try fewer parts", where,
              model.family);
}

void CheckRule(const Rule& rule, const ModelSites& model) {
  if (rule.Exempts() && !IsCache(rule.sites.front())) return;
  const bool some = std::ranges::any_of(rule.sites, [&](Site site) { return model.Has(site); });
  for (const Site site : rule.sites) {
    if (!model.Has(site) && some) continue;  // a group is of those there are
    if (!model.Has(site) && site == Site::kDifference)
      RefuseRule(rule, Name(site), Formatted("a site of {} model, whose heads have one map", WithArticle(model.family)),
                 "probs");
    if (!model.Has(site))
      RefuseRule(rule, Name(site), Formatted("a site of this {} model, which has none", model.family), WhatItHas(site));
    CheckSelector(rule, site, model, Formatted("plan rule '{}'", rule.text));
  }
  CheckUse(rule, Use::kAny, model);
  if (model.head_dim == 0 || !std::ranges::contains(kOfHeads, rule.sites.front())) return;
  std::set<int> widths;  // that are checked
  for (const SiteKey& key : model.Keys(rule.sites.front())) {
    if (!rule.Matches(key)) continue;
    if (const int width = model.Width(key); widths.insert(width).second) CheckRotation(&rule, key, width);
    if (IsCache(key.site) && rule.options.static_scale && model.latents.contains(*key.layer))
      RefuseRule(rule, Formatted("+static in layer {}, whose cache holds latents", *key.layer),
                 "scales of the values at hand, as statistics are of each head's", "/token");
  }
}

std::string WhyNotDecoded(const ResolvedPlan& plan) {
  for (const Site site : {Site::kAttnLogits, Site::kProbs, Site::kDifference}) {
    if (plan.plan().Touches(site))
      return Formatted(
          "got a rule for {}, expected none: decoding shows no maps; try the plan without it, or `tare eval` without a "
          "cache",
          Name(site));
  }
  if (plan.SpansRows())
    return "got scales that span tokens, expected scales of one token: later tokens are not known yet; try token, row, "
           "or channel of weights";
  return plan.carrying() == Carrying::kExecuted && plan.plan().Touches(Site::kQ)
             ? "got executed attention, expected the cache's own; try the plan without rules for q, k and v"
             : "";
}

void CheckDecodes(const ResolvedPlan& plan) {
  if (const std::string why = WhyNotDecoded(plan); !why.empty()) FailUsage("plan over a cache: {}", why);
}

bool NeedsSurvey(const Rule& rule) {
  const Kind kind = rule.granularity.kind;
  if (HasTensorScale(rule)) return true;
  if (rule.sites.front() == Site::kProbs) return false;
  const bool of_blocks = kind == Kind::kTensor || kind == Kind::kHead || kind == Kind::kHeads;
  return rule.format != Format::kF32 && of_blocks && !rule.options.static_scale;
}

bool HasTensorScale(const Rule& rule) {
  const Site site = rule.sites.front();
  return NeedsTensor(rule.format.scale) && rule.granularity.kind != Kind::kRow && site != Site::kProbs &&
         site != Site::kDifference && !IsCache(site);
}

bool HasZeroPoint(const Rule& rule) {
  return rule.sites.front() == Site::kDifference && IsInteger(rule.format) && Info(rule.format).min_code == 0;
}

ResolvedPlan::ResolvedPlan(Plan plan, const ModelSites& model, Carrying carrying, const StaticSource& statics)
    : plan_(std::move(plan)), carrying_(carrying) {
  for (const Rule& rule : plan_.rules()) CheckRule(rule, model);
  CheckWeights(*this, model);
  if (plan_.NamesCaches()) CheckDecodes(*this);
  if (carrying == Carrying::kStored) CheckStored(*this, model);
  if (carrying == Carrying::kExecuted) {
    simulated_ = CheckExecuted(*this, model);
    for (int layer = 0; layer < model.layers; ++layer) attention_.push_back(ExecutedPlanOf(*this, model, layer));
  }
  for (const SiteInfo& info : kSites) {
    for (const SiteKey& key : model.Keys(info.site)) {
      const Rule* rule = RuleAt(key);
      if (rule == nullptr || !rule->options.static_scale) continue;
      if (const std::optional<float> clip = statics ? std::nullopt : StoredClip(*rule, key, model)) {
        clips_[key] = {*clip};
        continue;
      }
      if (!statics) CheckUse(*rule, Use::kUnmeasured);
      if (!IsCache(info.site)) clips_[key] = statics(*rule, key);  // a run has those of caches
    }
  }
}

const Rule* ResolvedPlan::RuleAt(const SiteKey& key) const {
  const Rule* rule = plan_.Match(key);
  return rule == nullptr || rule->format == Format::kF32 ? nullptr : rule;
}

const Rule* ResolvedPlan::CodedAt(const SiteKey& key) const {
  const std::optional<Site> weight = WeightOf(key.site);
  return weight && simulated_.contains(InputKeyOf({*weight, key.layer})) ? nullptr : RuleAt(key);
}

const Rule* ResolvedPlan::SimulatedAt(const SiteKey& key) const {
  return carrying_ == Carrying::kExecuted && CodedAt(key) != nullptr ? nullptr : RuleAt(key);
}

bool ResolvedPlan::Simulates(Site site) const {
  if (carrying_ != Carrying::kExecuted) return plan_.Touches(site);
  return std::ranges::contains(simulated_, site, &SiteKey::site);
}

bool ResolvedPlan::NeedsSurvey(Site site) const {
  return std::ranges::any_of(plan_.rules(), [site](const Rule& rule) {
    return tare::NeedsSurvey(rule) && std::ranges::contains(rule.sites, site);
  });
}

bool SpansRows(const Plan& plan) {
  return std::ranges::any_of(plan.rules(), [](const Rule& rule) {
    return rule.format != Format::kF32 && !IsWeight(rule.sites.front()) && !IsCache(rule.sites.front()) &&
           (!IsByRow(rule) || HasTensorScale(rule) || rule.options.smooth);
  });
}

}  // namespace tare
