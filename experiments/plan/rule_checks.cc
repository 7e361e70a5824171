// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/rule_checks.h"

#include <algorithm>
#include <array>
#include <vector>

#include "experiments/text/grammar.h"
#include "kernels/cache/page_layout.h"
#include "kernels/linear/packed_matrix.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/format/hadamard.h"
#include "quant/format/quantized_matrix.h"
#include "quant/plan/site_class.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

bool IsWhole(Kind kind) { return kind == Kind::kTensor || kind == Kind::kHead; }

// Of keys and values: their scales follow from both ends of the values at hand.
void CheckOffset(const Rule& rule) {
  const std::string ranged = Formatted("{} with ", Name(rule.format));
  const Kind kind = rule.granularity.kind;
  if (rule.options.static_scale || rule.options.percentile)
    RefuseRule(rule, ranged + "+static or +p", "ends of the values themselves, or +mse", "it without this option");
  if (IsWhole(kind))
    RefuseRule(rule, ranged + ScaleText(rule), "one per token, channel, group<N> or block<N>.channel", "token");
  const bool over_tokens = kind == Kind::kChannel || kind == Kind::kBlockChannel;
  if (over_tokens && rule.options.keep > 0 && rule.format.range == CodeRange::kMin)
    RefuseRule(rule, ranged + "+keep, which would put a 0 into the range", "+zero", "it with +zero");
}

// Of keys and values in normal4 to normal1, and in lists about a mean: their scale is no largest magnitude, and zeros
// change it.
void CheckRootMeanSquare(const Rule& rule) {
  const std::string name = Name(rule.format);
  if (rule.options.HasClip())
    RefuseRule(rule, name + " with a clip", "the root of the mean square of the values at hand", "it without");
  if (IsWhole(rule.granularity.kind))
    RefuseRule(rule, name + " with " + ScaleText(rule), "one per token, channel, group<N> or block<N>.channel",
               "token+hadamard");
  const bool over_tokens = rule.granularity.kind == Kind::kChannel || rule.granularity.kind == Kind::kBlockChannel;
  if (over_tokens && rule.options.keep > 0)
    RefuseRule(rule, name + " with +keep and " + ScaleText(rule), "scales of tokens, as kept tokens count as zeros",
               "it without +keep, or token+keep4");
}

void CheckOptions(const Rule& rule) {
  CheckCacheRule(rule);
  const RuleOptions& o = rule.options;
  const Kind kind = rule.granularity.kind;
  const bool clips = o.percentile.has_value() || o.mse;
  if (Info(rule.format).statistic == Statistic::kMean && clips)
    RefuseRule(rule, "a clip with the mean magnitude", "no options", "it without them");
  if (Info(rule.format).statistic == Statistic::kRootMeanSquare && !IsWeight(rule.sites.front()))
    CheckRootMeanSquare(rule);
  if (o.outliers && (IsWhole(kind) || o.static_scale || HasTensorScale(rule)))
    RefuseRule(rule,
               "+outliers with " + std::string(o.static_scale ? "+static" : "a scale of the whole tensor or head"),
               "scales of the values at hand: per token, channel, group<N> or block<N>.channel", "token+outliers1");
  if (o.outliers && o.sketch)
    RefuseRule(rule, "+outliers with +sketch, which would change the outliers", "one of the two", "it without +sketch");
  if (o.prerotary && o.smooth)
    RefuseRule(rule, "+prerotary with +smooth, whose mean is of rotated keys", "one of the two", "it without +smooth");
  if (HasZeroPoint(rule) && clips)
    RefuseRule(rule, "a clip with a zero point", "no options, as both ends of a group have a code",
               "int8, int6 or int4");
  if (HasOffset(rule.format) && !IsWeight(rule.sites.front())) CheckOffset(rule);
  if (rule.format.range == CodeRange::kFull && !IsWeight(rule.sites.front()) && o.static_scale && o.mse)
    RefuseRule(rule, "+full with +static and +mse", "one of the two, as statistics are of magnitudes",
               "it without +mse");
  if (o.smooth && IsWhole(kind))
    RefuseRule(rule, "+smooth with " + ScaleText(rule), "one per token, channel, group<N> or block<N>.channel",
               "token+smooth");
  if (o.smooth && HasTensorScale(rule)) RefuseRule(rule, "+smooth with a scale per tensor", "none", "mxfp4+smooth");
  const RuleOptions changes{.hadamard = o.hadamard, .max_shift = o.max_shift, .keep = o.keep, .prerotary = o.prerotary};
  if (o.static_scale && changes != RuleOptions{})
    RefuseRule(rule, "+static with " + TextOf(changes),
               "scales of what is rounded: statistics are of the values themselves", "it without +static");
  if (o.static_scale && !IsWhole(kind) && kind != Kind::kChannel)
    RefuseRule(rule, "+static with " + ScaleText(rule), "one per tensor, head or channel", "tensor+static");
  if (o.static_scale && kind == Kind::kChannel && clips)
    RefuseRule(rule, "a clip with static scales per channel", "their largest magnitudes", "it without +p and +mse");
  if (rule.sites.front() == Site::kScanState && NeedsSurvey(rule))
    RefuseRule(rule, "a dynamic scale of all tokens", "one per token: later states follow from a token's rounded state",
               "token, or tensor+static");
  if (!o.static_scale && IsWhole(kind) && clips && !IsWeight(rule.sites.front()))
    RefuseRule(rule, "a clip with " + ScaleText(rule), "+static with it, or a scale per row or token", "+static");
  if (kind == Kind::kHeads && clips)
    RefuseRule(rule, "a clip with one scale for a token's heads", "their largest magnitude", "it without +p and +mse");
}

struct LinearSites {
  Site weight, input;
};

// Weights, and the inputs that they multiply.
std::vector<LinearSites> AllLinearSites() {
  std::vector<LinearSites> all{{Site::kLmHeadW, Site::kLmHeadIn}, {Site::kLambdaProjW, Site::kLambdaProjIn}};
  const std::span<const Site> weights = ExpandSites("weights"), inputs = ExpandSites("linear_in");
  for (size_t i = 0; i < weights.size(); ++i) all.push_back({weights[i], inputs[i]});
  return all;
}

// What to suggest for a site that a model lacks.
std::string_view WhatItHas(Site site) {
  if (site == Site::kQNorm || site == Site::kKNorm) return "q or k";
  return site == Site::kAttnGate ? "head_out" : "the plan without it";
}

constexpr std::array kAttentionSites{Site::kQ, Site::kK, Site::kV, Site::kAttnLogits, Site::kProbs, Site::kDifference};

// What to try: the largest group, up to the rule's, that divides the rows of all weights where the rule holds and that
// the integer kernels accept; and how the weights at this place can have their own.
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

// Refuses a rotation that is not known of rows of so many weights, and of their inputs.
void CheckRotation(const Rule* rule, const SiteKey& weight, int64_t in) {
  if (rule == nullptr) return;
  try {
    rule->options.Rotation(in);
  } catch (const Error& error) {
    FailUsage("plan rule '{}': {}: {}", rule->text, TextOf(weight), error.what());
  }
}

// Integers of rotated inputs times those of weights that are not are no products of the two.
void CheckSameRotation(const Rule* rule, const SiteKey& key, const StoredWeight& stored, const Rule& input) {
  const Hadamard* const of_weight = rule != nullptr ? rule->options.Rotation(stored.in) : stored.rotation;
  if (input.options.Rotation(stored.in) == of_weight) return;
  RefuseRule(input, RotationText(input.options.Rotation(stored.in)),
             Formatted("that of {}, {}", TextOf(key), RotationText(of_weight)),
             "the same +hadamard for weights and their inputs, or simulating it");
}

// The same where the weights' rows are not known.
void CheckSameOption(const Rule* rule, const Rule& input) {
  if (rule == nullptr || rule->options.hadamard.has_value() == input.options.hadamard.has_value()) return;
  RefuseRule(input, input.options.hadamard ? "+hadamard" : "no rotation", "that of '" + rule->text + "'",
             "the same +hadamard for weights and their inputs, or simulating it");
}

// Refuses codes in groups that the integer kernels cannot use.
void CheckExecutedWeight(const ResolvedPlan& plan, const ModelSites& model, const SiteKey& key,
                         const StoredWeight& stored, const Rule& input) {
  const Rule* rule = plan.RuleAt(key);
  CheckSameRotation(rule, key, stored, input);
  const Format format = rule != nullptr ? rule->format : *stored.format;
  if (!AsStepCodes(format))
    RefuseRule(rule != nullptr ? *rule : input, Formatted("{} in {}", TextOf(key), Name(format)),
               "values that are integers times a step, as integer kernels need", "simulating it, or mxfp4 or mxint8");
  const int64_t group = rule != nullptr ? GroupOf(rule->granularity, stored.in) : stored.group;
  if (stored.in % group != 0) {
    const int smaller = Info(Format::kNvFp4).block;
    const bool fits = rule != nullptr && stored.in % smaller == 0;
    RefuseRule(rule != nullptr ? *rule : input,
               Formatted("blocks of {} for rows of {} weights of {}", group, stored.in, TextOf(key)), "a divisor",
               fits ? Formatted("{}=nvfp4 after it, of blocks of {}, or simulating it", Name(key.site), smaller)
                    : "simulating it");
  }
  if (group == stored.in || group % PackedMatrix::kRecord == 0) return;
  const std::string expected = Formatted("multiples of {} or one scale per channel", PackedMatrix::kRecord);
  const std::string got = Formatted("groups of {} in {}", group, TextOf(key));
  if (rule == nullptr || (stored.format && stored.scheme.empty())) RefuseRule(input, got, expected, "simulating it");
  RefuseRule(*rule, got, expected, GroupThatFits(*rule, plan, model, key));
}

std::string StoredText(const StoredWeight& stored) {
  return stored.scheme.empty() ? "floating point" : stored.scheme + ", whose codes are no integers in equal groups";
}

// One dynamic scale per token, or one static scale.
void CheckExecutedInput(const Rule& rule) {
  RuleOptions others = rule.options;
  others.hadamard.reset();
  const bool fits = rule.options.static_scale ? rule.granularity.kind == Kind::kTensor
                                              : rule.granularity.kind == Kind::kToken && others == RuleOptions{};
  if (!fits)
    RefuseRule(rule, ScaleText(rule) + TextOf(rule.options), "a dynamic scale per token, or a static one per tensor",
               "linear_in=int8/token, or simulating it");
}

// "layers 1, 3, 5 and 7"
std::string LayersText(const std::vector<int>& layers) {
  std::string text = layers.size() > 1 ? "layers" : "layer";
  for (size_t i = 0; i < layers.size(); ++i)
    text += Formatted("{} {}", i == 0 ? "" : i + 1 < layers.size() ? "," : " and", layers[i]);
  return text;
}

}  // namespace

SiteKey InputKeyOf(const SiteKey& weight) {
  const Site input = InputOf(weight.site);
  return {
      .site = input, .layer = weight.layer, .head = input == Site::kExpertsDownIn ? std::optional(0) : std::nullopt};
}

bool HasKernel(Site site) {
  return IsCache(site) || std::ranges::contains(kAttentionSites, site) ||
         std::ranges::any_of(AllLinearSites(),
                             [&](const LinearSites& l) { return l.weight == site || l.input == site; });
}

Site InputOf(Site weight) {
  for (const LinearSites& linear : AllLinearSites()) {
    if (linear.weight == weight) return linear.input;
  }
  TARE_CHECK(false);
}

std::optional<Site> WeightOf(Site input) {
  for (const LinearSites& linear : AllLinearSites()) {
    if (linear.input == input) return linear.weight;
  }
  return std::nullopt;
}

void RefuseRule(const Rule& rule, std::string_view got, std::string_view expected, std::string_view attempt) {
  FailUsage("plan rule '{}': got {}, expected {}; try {}", rule.text, got, expected, attempt);
}

void CheckCacheRule(const Rule& rule) {
  if (!IsCache(rule.sites.front()) || !HasCodes(rule.format)) return;
  const bool of_keys = rule.sites.front() == Site::kCacheK;
  if (of_keys ? MayShareKeyScale(rule.granularity) : MayShareValueScale(rule.granularity)) return;
  RefuseRule(rule, ScaleText(rule), of_keys ? kKeyGranularities : kValueGranularities,
             of_keys ? "block32.channel" : "group32");
}

std::string ScaleText(const Rule& rule) { return "a scale per " + Name(rule.granularity); }

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
    FailUsage("{}: got layers without {}, expected some of {}; try a selector that this {} model has", where,
              Name(site), LayersText(some->second), model.family);
  check(rule.selector.heads, 0, model.Heads(site), "head");
  check(rule.selector.maps, 1, model.maps, "map");
  check(rule.selector.experts, 0, model.experts, "expert");
}

void CheckRule(const Rule& rule, const ModelSites& model) {
  if (rule.Exempts() && !IsCache(rule.sites.front())) return;
  for (const Site site : rule.sites) {
    if (!model.Has(site) && rule.sites.size() > 1) continue;  // `weights` and `linear_in` are of those there are
    if (!model.Has(site) && site == Site::kDifference)
      RefuseRule(rule, Name(site), Formatted("a site of {} model, whose heads have one map", WithArticle(model.family)),
                 "probs");
    if (!model.Has(site))
      RefuseRule(rule, Name(site), Formatted("a site of this {} model, which has none", model.family), WhatItHas(site));
    CheckSelector(rule, site, model, Formatted("plan rule '{}'", rule.text));
  }
  if (rule.options.prerotary && !IsCache(rule.sites.front()) && !model.no_prerotary.empty())
    RefuseRule(rule, "+prerotary", "none for " + model.no_prerotary, "it without +prerotary");
  if (rule.options.sink && model.sinks)
    RefuseRule(rule, "+sink", Formatted("none, as heads of this {} model have learned sinks", model.family),
               "it without +sink");
  CheckOptions(rule);
}

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

void CheckStored(const ResolvedPlan& plan, const ModelSites& model) {
  bool quantizes = false;
  for (const LinearSites& linear : AllLinearSites()) {
    for (const SiteKey& key : model.Keys(linear.weight)) quantizes |= plan.RuleAt(key) != nullptr;
  }
  if (!quantizes)
    FailUsage("plan '{}': got no rule for weights, expected one; try weights=int4/channel", plan.plan().canonical());
  const Rule* head = plan.RuleAt({Site::kLmHeadW});
  if (head != nullptr && model.tied_head)
    RefuseRule(*head, "the embedding, which is this model's head", "weights of its own", "the plan without the rule");
}

void CheckExecuted(const ResolvedPlan& plan, const ModelSites& model) {
  for (const Rule& rule : plan.plan().rules()) {
    if (rule.options.sink) RefuseRule(rule, "+sink", "no sink, which integer kernels do not support", "simulating it");
    if (rule.format == Format::kF32 || IsCache(rule.sites.front())) continue;
    if (rule.options.smooth && model.sinks && rule.sites.front() != Site::kQ)
      RefuseRule(rule, "+smooth", "none, as rows of heads with learned sinks do not sum to 1", "simulating it");
    if (!IsInteger(rule.format) && !IsWeight(rule.sites.front()))
      RefuseRule(rule, Name(rule.format), "integers, as integer kernels need", "simulating it");
    if (rule.sites.front() == Site::kExpertsDownIn && !rule.selector.heads.empty())
      RefuseRule(rule, "some of a token's experts", "all of them, as integer kernels take them", "simulating it");
    for (const Site site : rule.sites) {
      if (!HasKernel(site))
        RefuseRule(
            rule, "a site without an integer kernel",
            "weights, linear_in, lambda_proj.w, lambda_proj.in, lm_head.w, lm_head.in, q, k, v, attn_logits, probs or "
            "difference",
            "simulating it");
    }
  }
  for (const LinearSites& linear : AllLinearSites()) {
    for (const SiteKey& key : model.Keys(linear.weight)) {
      const Rule* input = plan.RuleAt(InputKeyOf(key));
      if (input == nullptr) continue;
      CheckExecutedInput(*input);
      const auto stored = model.weights.find(key);
      if (stored == model.weights.end()) CheckSameOption(plan.RuleAt(key), *input);
      if (plan.RuleAt(key) == nullptr && stored != model.weights.end() && !stored->second.format)
        RefuseRule(*input, TextOf(key) + " in " + StoredText(stored->second), "weights in integers with it",
                   "it with weights=int8/channel, or simulating it");
      if (stored != model.weights.end()) CheckExecutedWeight(plan, model, key, stored->second, *input);
    }
  }
}

void CheckDecodes(const ResolvedPlan& plan) {
  for (const Site site : {Site::kAttnLogits, Site::kProbs, Site::kDifference}) {
    if (plan.plan().Touches(site))
      FailUsage(
          "plan over a cache: got a rule for {}, expected none: decoding shows no maps; try the plan without it, or "
          "`tare eval` without a cache",
          Name(site));
  }
  if (plan.SpansRows())
    FailUsage(
        "plan over a cache: got scales that span tokens, expected scales of one token: later tokens are not known yet; "
        "try token, row, or channel of weights");
  if (plan.carrying() == Carrying::kExecuted && plan.plan().Touches(Site::kQ))
    FailUsage(
        "plan over a cache: got executed attention, expected the cache's own; try the plan without rules for q, k and "
        "v");
}

}  // namespace tare
