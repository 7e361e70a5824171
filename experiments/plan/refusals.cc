// SPDX-License-Identifier: Apache-2.0
// First traits of a rule, each a line; then the table; then the words that its marks stand for.
#include "experiments/plan/refusals.h"

#include <algorithm>
#include <utility>

#include "experiments/plan/resolved_plan.h"
#include "kernels/attention/row_block.h"
#include "kernels/cache/page_layout.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;
using Trait = Refusal::Trait;

template <auto option>
constexpr Trait Has = [](const Rule& rule, const ModelSites&) { return static_cast<bool>(rule.options.*option); };
template <auto... options>
constexpr Trait HasOtherThan = [](const Rule& rule, const ModelSites&) {
  RuleOptions others = rule.options;
  ((others.*options = {}), ...);
  return others != RuleOptions{};
};
template <Kind... kinds>
constexpr Trait Per = [](const Rule& rule, const ModelSites&) { return ((rule.granularity.kind == kinds) || ...); };
template <Site... sites>
constexpr Trait Of = [](const Rule& rule, const ModelSites&) { return ((rule.sites.front() == sites) || ...); };
template <Statistic statistic>
constexpr Trait ScaledBy = [](const Rule& rule, const ModelSites&) { return Info(rule.format).statistic == statistic; };
template <CodeRange range>
constexpr Trait Covers = [](const Rule& rule, const ModelSites&) { return Info(rule.format).range == range; };
template <Trait trait>
constexpr Trait Not = [](const Rule& rule, const ModelSites& model) { return !trait(rule, model); };

// Options.
constexpr Trait kSmooth = Has<&RuleOptions::smooth>, kSketch = Has<&RuleOptions::sketch>,
                kSink = Has<&RuleOptions::sink>, kKeep = Has<&RuleOptions::keep>,
                kOutliers = Has<&RuleOptions::outliers>, kStatic = Has<&RuleOptions::static_scale>,
                kMse = Has<&RuleOptions::mse>, kPrerotary = Has<&RuleOptions::prerotary>, kTop = Has<&RuleOptions::top>,
                kUnnormalized = Has<&RuleOptions::unnormalized>, kMaxShift = Has<&RuleOptions::max_shift>;

bool RoundsSoftmax(const Rule& rule, const ModelSites&) { return rule.options.softmax.Any(); }
bool RoundsSums(const Rule& rule, const ModelSites&) { return rule.options.softmax.sum.has_value(); }
bool Clips(const Rule& rule, const ModelSites&) { return rule.options.percentile || rule.options.mse; }
bool ClipsOrIsStatic(const Rule& rule, const ModelSites&) { return rule.options.HasClip(); }
bool IsStaticOrHasPercentileOrTop(const Rule& rule, const ModelSites&) {
  return rule.options.static_scale || rule.options.percentile || rule.options.top;
}

// What changes values before they are rounded.
RuleOptions Changes(const RuleOptions& o) {
  return {.hadamard = o.hadamard, .max_shift = o.max_shift, .keep = o.keep, .prerotary = o.prerotary};
}
bool ChangesValues(const Rule& rule, const ModelSites&) { return Changes(rule.options) != RuleOptions{}; }

// One dynamic scale per token, or one static scale, fits the kernels; so do blocks of integers times a step.
bool IsNoInputOfKernels(const Rule& rule, const ModelSites& model) {
  if (!AsStepCodes(rule.format)) return true;
  if (rule.options.static_scale) return rule.granularity.kind != Kind::kTensor;
  return (rule.granularity.kind != Kind::kToken && Info(rule.format).block == 0) ||
         HasOtherThan<&RuleOptions::hadamard>(rule, model);
}

// Scales.
constexpr Trait kWhole = Per<Kind::kTensor, Kind::kHead>, kByChannel = Per<Kind::kChannel>,
                kByTokens = Per<Kind::kToken, Kind::kTokens, Kind::kTokensBy8, Kind::kTokensBy4x2>,
                kOverTokens =
                    Per<Kind::kChannel, Kind::kBlockChannel, Kind::kTokens, Kind::kTokensBy8, Kind::kTokensBy4x2>;

bool HasScaleOfAll(const Rule& rule, const ModelSites& model) { return kWhole(rule, model) || HasTensorScale(rule); }
bool IsSurveyed(const Rule& rule, const ModelSites&) { return NeedsSurvey(rule); }
bool HasOtherBlocks(const Rule& rule, const ModelSites&) {
  return rule.granularity.n < kTile || rule.granularity.n > kLargestBlock || rule.granularity.n % kTile != 0;
}
template <Site site, auto may_share>
bool HasScaleOfNoPage(const Rule& rule, const ModelSites&) {
  return rule.sites.front() == site && HasCodes(rule.format) && !may_share(rule.format, rule.granularity);
}

// Formats.
constexpr Trait kByMean = ScaledBy<Statistic::kMean>, kByRootMeanSquare = ScaledBy<Statistic::kRootMeanSquare>;

bool Rounds(const Rule& rule, const ModelSites&) { return rule.format != Format::kF32; }
bool HasGroups(const Rule& rule, const ModelSites&) { return HasCodes(rule.format); }
bool HasZero(const Rule& rule, const ModelSites&) { return HasZeroPoint(rule); }
bool HasEnds(const Rule& rule, const ModelSites&) { return HasOffset(rule.format); }
bool HasNoIntegers(const Rule& rule, const ModelSites&) { return !IsInteger(rule.format); }
bool HasOtherCodes(const Rule& rule, const ModelSites&) {
  return !std::ranges::contains(std::array{Format::kInt8, Format::kInt6, Format::kInt4}, rule.format);
}

bool HasNoTop(const Rule& rule, const ModelSites&) {
  return rule.format.scale != ScaleType::kF32 || rule.options.top > Info(rule.format).Largest();
}

// Sites and models.
constexpr Trait kOfQk = Of<Site::kQ, Site::kK>, kOfQkv = Of<Site::kQ, Site::kK, Site::kV>,
                kOfCaches = Of<Site::kCacheK, Site::kCacheV>;

bool IsOfValues(const Rule& rule, const ModelSites&) { return !IsWeight(rule.sites.front()); }
bool IsOfAttention(const Rule& rule, const ModelSites&) {
  return std::ranges::contains(kAttentionSites, rule.sites.front());
}
bool IsOfSomeChosenExperts(const Rule& rule, const ModelSites&) {
  return rule.sites.front() == Site::kExpertsDownIn && !rule.selector.heads.empty();
}
bool HasNoKernel(const Rule& rule, const ModelSites&) { return !std::ranges::all_of(rule.sites, HasKernel); }
bool HasLearnedSinks(const Rule&, const ModelSites& model) { return model.sinks; }
bool IsUnsummed(const Rule&, const ModelSites& model) { return model.row_weights != RowWeights::kSoftmax; }
bool HasNoRotary(const Rule&, const ModelSites& model) { return !model.no_prerotary.empty(); }
bool HasTiedHead(const Rule&, const ModelSites& model) { return model.tied_head; }

constexpr const char* kPart = "one per token, channel, group<N> or block<N>.channel";

constexpr Refusal Row(Use use, std::array<Trait, 4> traits, std::string_view got, std::string_view expected,
                      std::string_view attempt) {
  return {use, traits, got, expected, attempt};
}

constexpr Refusal kRefusals[] = {
    Row(Use::kAny, {kPrerotary, Not<kOfCaches>, HasNoRotary}, "+prerotary", "none for {why}", "it without +prerotary"),
    Row(Use::kAny, {kSink, HasLearnedSinks}, "+sink", "none, as heads of this {family} model have learned sinks",
        "it without +sink"),
    Row(Use::kAny, {kSink, IsUnsummed}, "+sink", "none, as {weights} has no sum of exponentials to add it to",
        "it without +sink"),
    Row(Use::kAny, {kMaxShift, IsUnsummed}, "+maxshift", "none, as a constant added to logits changes {weights}",
        "it without +maxshift"),
    Row(Use::kAny, {RoundsSoftmax, IsUnsummed}, "{options}", "none, as {weights} is no softmax",
        "it without +diff, +exp, +rescale and +sum"),
    Row(Use::kAny, {Of<Site::kProbs>, Not<kUnnormalized>, IsUnsummed}, "maps divided by the sums of their rows",
        "+unnormalized, as {weights}'s rows do not sum to 1", "it with +unnormalized"),
    Row(Use::kAny, {kOfCaches, Rounds, IsUnsummed}, "a cache",
        "none, as attention over caches is softmax, not {weights}", "a rule for k or v"),
    Row(Use::kAny, {RoundsSoftmax, HasLearnedSinks}, "{options}", "none, as learned sinks belong to the sum",
        "it without +diff, +exp, +rescale and +sum"),
    Row(Use::kAny, {RoundsSums, Rounds, Not<kUnnormalized>}, "+sum with maps divided by the sums of their codes",
        "+unnormalized", "it with +unnormalized"),
    Row(Use::kAny, {kOfCaches, kStatic, Not<HasGroups>}, "{format} with +static", "a format with scales",
        "fp8e4m3/tensor+static"),
    Row(Use::kAny, {kOfCaches, kStatic, Not<Per<Kind::kTensor>>}, "+static with {scale}", "one per tensor",
        "tensor+static"),
    Row(Use::kAny, {HasScaleOfNoPage<Site::kCacheK, MayShareKeyScale>}, "{scale}", kKeyGranularities,
        "block32.channel"),
    Row(Use::kAny, {HasScaleOfNoPage<Site::kCacheV, MayShareValueScale>}, "{scale}", kValueGranularities, "group32"),
    Row(Use::kAny, {kByMean, Clips}, "a clip with the mean magnitude", "no options", "it without them"),
    // Scales of normal4 to normal1, and of lists about a mean, are no largest magnitudes, and zeros change them.
    Row(Use::kAny, {kByRootMeanSquare, IsOfValues, ClipsOrIsStatic}, "{format} with a clip",
        "the root of the mean square of the values at hand", "it without"),
    Row(Use::kAny, {kByRootMeanSquare, IsOfValues, kWhole}, "{format} with {scale}", kPart, "token+hadamard"),
    Row(Use::kAny, {kByRootMeanSquare, IsOfValues, kOverTokens, kKeep}, "{format} with +keep and {scale}",
        "scales of tokens, as kept tokens count as zeros", "it without +keep, or token+keep4"),
    Row(Use::kAny, {kOutliers, kStatic}, "+outliers with +static",
        "scales of the values at hand: per token, channel, group<N> or block<N>.channel", "token+outliers1"),
    Row(Use::kAny, {kOutliers, HasScaleOfAll}, "+outliers with a scale of the whole tensor or head",
        "scales of the values at hand: per token, channel, group<N> or block<N>.channel", "token+outliers1"),
    Row(Use::kAny, {kOutliers, kSketch}, "+outliers with +sketch, which would change the outliers", "one of the two",
        "it without +sketch"),
    Row(Use::kAny, {kPrerotary, kSmooth}, "+prerotary with +smooth, whose mean is of rotated keys", "one of the two",
        "it without +smooth"),
    Row(Use::kAny, {HasZero, Clips}, "a clip with a zero point", "no options, as both ends of a group have a code",
        "int8, int6 or int4"),
    // Scales of keys and values with an offset follow from both ends of the values at hand.
    Row(Use::kAny, {HasEnds, IsOfValues, IsStaticOrHasPercentileOrTop}, "{format} with +static, +p or +top",
        "ends of the values themselves, or +mse", "it without this option"),
    Row(Use::kAny, {Covers<CodeRange::kMin>, IsOfValues, kWhole}, "{format} with {scale}", kPart, "token"),
    Row(Use::kAny, {kOfCaches, Per<Kind::kTensor>, HasGroups, Not<kStatic>}, "{scale}",
        "one per token, or a static one: later tokens are not known yet", "tensor+static"),
    Row(Use::kAny, {Covers<CodeRange::kMin>, IsOfValues, kOverTokens, kKeep},
        "{format} with +keep, which would put a 0 into the range", "+zero", "it with +zero"),
    Row(Use::kAny, {Covers<CodeRange::kFull>, IsOfValues, kStatic, kMse}, "+full with +static and +mse",
        "one of the two, as statistics are of magnitudes", "it without +mse"),
    Row(Use::kAny, {kSmooth, kStatic}, "+smooth with +static",
        "one of the two, as statistics are of the values themselves", "it without +static"),
    Row(Use::kAny, {kTop, HasNoTop}, "{options} with {format}", "at most {largest}, and a scale in f32",
        "it without +top"),
    Row(Use::kAny, {kTop, kMse}, "+top with +mse", "one of the two, as each says what becomes the largest code",
        "it without +mse"),
    Row(Use::kAny, {kStatic, ChangesValues}, "+static with {changes}",
        "scales of what is rounded: statistics are of the values themselves", "it without +static"),
    Row(Use::kAny, {kStatic, Not<kWhole>, Not<kByChannel>}, "+static with {scale}", "one per tensor, head or channel",
        "tensor+static"),
    Row(Use::kAny, {kStatic, kByChannel, Clips}, "a clip with static scales per channel", "their largest magnitudes",
        "it without +p and +mse"),
    Row(Use::kAny, {Of<Site::kScanState>, IsSurveyed}, "a dynamic scale of all tokens",
        "one per token: later states follow from a token's rounded state", "token, or tensor+static"),
    Row(Use::kAny, {Not<kStatic>, kWhole, Clips, IsOfValues}, "a clip with {scale}",
        "+static with it, or a scale per row or token", "+static"),
    Row(Use::kAny, {Per<Kind::kHeads>, Clips}, "a clip with one scale for a token's heads", "their largest magnitude",
        "it without +p and +mse"),

    Row(Use::kUnmeasured, {kStatic}, "+static without statistics", "a statistics file of this model",
        "--stats FILE.h5"),
    Row(Use::kStored, {Of<Site::kLmHeadW>, HasTiedHead}, "the embedding, which is this model's head",
        "weights of its own", "the plan without the rule"),

    Row(Use::kExecuted, {RoundsSoftmax}, "{options}", "a softmax in f32", kSimulate),
    Row(Use::kExecuted, {kSink}, "+sink", "no sink, which integer kernels do not support", kSimulate),
    Row(Use::kExecuted, {IsUnsummed, Rounds, Of<Site::kQ, Site::kK, Site::kV, Site::kAttnLogits, Site::kProbs>},
        "{weights}", "softmax, which integer kernels compute", kSimulate),
    Row(Use::kExecuted, {kSmooth, HasLearnedSinks, Not<Of<Site::kQ>>}, "+smooth",
        "none, as rows of heads with learned sinks do not sum to 1", kSimulate),
    Row(Use::kExecuted, {Rounds, HasNoIntegers, IsOfAttention}, "{format}", "integers, as integer kernels need",
        kSimulate),
    Row(Use::kExecuted, {Rounds, IsOfSomeChosenExperts}, "some of a token's experts",
        "all of them, as integer kernels take them", kSimulate),
    Row(Use::kExecuted, {Rounds, HasNoKernel}, "a site without an integer kernel",
        "weights, linear_in, lambda_proj.w, lambda_proj.in, lm_head.w, lm_head.in, q, k, v, attn_logits, probs or "
        "difference",
        kSimulate),
    Row(Use::kInput, {IsNoInputOfKernels}, "{scale}{options}", "a dynamic scale per token, or a static one per tensor",
        "linear_in=int8/token, or simulating it"),
    Row(Use::kAttention, {kOfQk, Not<kByTokens>}, "{scale}", "one per token or tokens<N>", kSimulate),
    Row(Use::kAttention, {kOfQkv, HasOtherThan<&RuleOptions::smooth, &RuleOptions::hadamard>}, "{options}",
        "no option but +smooth and +hadamard", kSimulate),
    Row(Use::kAttention, {kOfQkv, HasOtherCodes}, "{format}", "int8, int6 or int4", kSimulate),
    Row(Use::kAttention, {Of<Site::kDifference>, Not<Per<Kind::kBlock>>}, "{scale}", "one per block<N>", kSimulate),
    Row(Use::kAttention, {Of<Site::kAttnLogits>, Not<Per<Kind::kRow>>}, "{scale}", "one per row", kSimulate),
    Row(Use::kAttention, {Of<Site::kProbs>, HasOtherThan<&RuleOptions::top, &RuleOptions::unnormalized>}, "{options}",
        "no option but +top and +unnormalized", kSimulate),
    Row(Use::kAttention, {Of<Site::kDifference, Site::kAttnLogits>, HasOtherThan<>}, "{options}", "no options",
        kSimulate),
    Row(Use::kAttention, {Per<Kind::kBlock, Kind::kBlockChannel>, HasOtherBlocks}, "blocks of {n} keys",
        "64 to 1024, in steps of 64", "{block64}"),
    Row(Use::kInParts, {kSmooth}, "+smooth", "none over a cache, as a prompt comes in parts", "it without +smooth"),
    Row(Use::kInParts, {Of<Site::kV>, Per<Kind::kChannel, Kind::kHead>}, "{scale}",
        "one per block<N>.channel over a cache, as a prompt comes in parts", "block64.channel"),
};

using Word = std::string (*)(const Rule& rule, const ModelSites& model);
constexpr std::pair<std::string_view, Word> kWords[] = {
    {"{scale}", [](const Rule& rule, const ModelSites&) { return ScaleText(rule); }},
    {"{format}", [](const Rule& rule, const ModelSites&) { return Name(rule.format); }},
    {"{options}", [](const Rule& rule, const ModelSites&) { return TextOf(rule.options); }},
    {"{changes}", [](const Rule& rule, const ModelSites&) { return TextOf(Changes(rule.options)); }},
    {"{largest}", [](const Rule& rule, const ModelSites&) { return Formatted("{}", Info(rule.format).Largest()); }},
    {"{block64}", [](const Rule& rule, const ModelSites&) { return Name(Granularity{rule.granularity.kind, kTile}); }},
    {"{n}", [](const Rule& rule, const ModelSites&) { return Formatted("{}", rule.granularity.n); }},
    {"{family}", [](const Rule&, const ModelSites& model) { return model.family; }},
    {"{weights}", [](const Rule&, const ModelSites& model) { return std::string(VariantName(model.row_weights)); }},
    {"{why}", [](const Rule&, const ModelSites& model) { return model.no_prerotary; }},
};

std::string WithWords(std::string_view text, const Rule& rule, const ModelSites& model) {
  std::string filled(text);
  for (const auto& [mark, word] : kWords) {
    if (const size_t at = filled.find(mark); at != filled.npos) filled.replace(at, mark.size(), word(rule, model));
  }
  return filled;
}

}  // namespace

bool Refusal::Refuses(const Rule& rule, const ModelSites& model) const {
  return std::ranges::all_of(traits, [&](Trait trait) { return trait == nullptr || trait(rule, model); });
}

std::span<const Refusal> Refusals() { return kRefusals; }

const Refusal* RefusalOf(const Rule& rule, Use use, const ModelSites& model) {
  return FindWhere(kRefusals, [&](const Refusal& row) { return row.use == use && row.Refuses(rule, model); });
}

void CheckUse(const Rule& rule, Use use, const ModelSites& model) {
  if (const Refusal* const row = RefusalOf(rule, use, model))
    RefuseRule(rule, WithWords(row->got, rule, model), WithWords(row->expected, rule, model),
               WithWords(row->attempt, rule, model));
}

void RefuseRule(const Rule& rule, std::string_view got, std::string_view expected, std::string_view attempt) {
  FailUsage("plan rule '{}': got {}, expected {}; try {}", rule.text, got, expected, attempt);
}

std::string ScaleText(const Rule& rule) { return "a scale per " + Name(rule.granularity); }

}  // namespace tare
