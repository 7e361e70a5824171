// SPDX-License-Identifier: Apache-2.0
// The named tensors of the forward pass that a plan may quantize and an observer may read. Groups stand for several:
// `weights` for a layer's projections, `linear_in` for their inputs, `mixer.X` for X of a Mamba and of both of a pair.
//
// scan, mamba and gmu are of layers of a Mamba (kernels/scan/selective_scan.h) and of gated memory units, mixer_1 and
// mixer_2 of layers that subtract one Mamba from another. Each expert
// has weights of its own. experts.gate_up.w are those of gate and up, one matrix or two. experts.down.in has a head for
// each of a token's chosen experts: 0 is that of the largest router logit. No pass shows caches (kernels/cache/).
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "quant/base/message.h"
#include "quant/format/format.h"

namespace tare {

// Which part of a model has a site.
enum class SiteOf {
  kModel,        // outside the layers
  kLayer,        // every layer
  kAttention,    // layers with attention
  kOwnKeys,      // those whose attention reads keys and values of their own
  kQueryProj,    // those whose queries are one product of the stream
  kKeyProj,      // likewise keys, and values
  kLatent,       // those that make queries, and keys and values, of latents
  kLambda,       // those of a model with one lambda per token and head
  kFeedForward,  // layers without experts
  kGate,         // those with a gate_proj beside up_proj
  kExperts,      // layers with a router and experts
  kShared,       // those with an expert that every token passes
  kMamba,
  kMambaRank,  // those of a Mamba-1, which projects its steps, B and C from u
  kMambaPair,  // those of two Mambas and their difference
  kMemoryUnit,
};

// The linear layers of one matrix: name in code and in text, what their weights are, of what their inputs are, and the
// part of a model that has them. Each is a row of TARE_SITES for its weights, and one for their inputs.
#define TARE_LINEAR_LAYERS(PART, ROW)                                                                           \
  PART(ROW, kQProj, "q_proj", "projections of attention", "these projections", kQueryProj)                      \
  PART(ROW, kKProj, "k_proj", "projections of attention", "these projections", kKeyProj)                        \
  PART(ROW, kVProj, "v_proj", "projections of attention", "these projections", kKeyProj)                        \
  PART(ROW, kQAProj, "q_a_proj", "projections of attention", "these projections", kLatent)                      \
  PART(ROW, kKvAProj, "kv_a_proj", "projections of attention", "these projections", kLatent)                    \
  PART(ROW, kQBProj, "q_b_proj", "projections of attention", "these projections", kLatent)                      \
  PART(ROW, kAttnGateProj, "attn_gate_proj", "projections of attention", "these projections", kLatent)          \
  PART(ROW, kKvBProj, "kv_b_proj", "projections of attention", "these projections", kLatent)                    \
  PART(ROW, kOProj, "o_proj", "projections of attention", "these projections", kAttention)                      \
  PART(ROW, kGateProj, "gate_proj", "the feed-forward part", "the feed-forward part", kGate)                    \
  PART(ROW, kUpProj, "up_proj", "the feed-forward part", "the feed-forward part", kFeedForward)                 \
  PART(ROW, kDownProj, "down_proj", "the feed-forward part", "the feed-forward part", kFeedForward)             \
  PART(ROW, kMambaInProj, "mamba.in_proj", "projections of Mamba layers", "these projections", kMamba)          \
  PART(ROW, kMambaXProj, "mamba.x_proj", "projections of Mamba layers", "these projections", kMambaRank)        \
  PART(ROW, kMambaDtProj, "mamba.dt_proj", "projections of Mamba layers", "these projections", kMambaRank)      \
  PART(ROW, kMambaOutProj, "mamba.out_proj", "projections of Mamba layers", "these projections", kMamba)        \
  PART(ROW, kMixer1InProj, "mixer_1.in_proj", "projections of Mamba layers", "these projections", kMambaPair)   \
  PART(ROW, kMixer1OutProj, "mixer_1.out_proj", "projections of Mamba layers", "these projections", kMambaPair) \
  PART(ROW, kMixer2InProj, "mixer_2.in_proj", "projections of Mamba layers", "these projections", kMambaPair)   \
  PART(ROW, kMixer2OutProj, "mixer_2.out_proj", "projections of Mamba layers", "these projections", kMambaPair) \
  PART(ROW, kGmuInProj, "gmu.in_proj", "projections of memory units", "these projections", kMemoryUnit)         \
  PART(ROW, kGmuOutProj, "gmu.out_proj", "projections of memory units", "these projections", kMemoryUnit)       \
  PART(ROW, kSharedGate, "shared.gate", "the shared expert", "the shared expert", kShared)                      \
  PART(ROW, kSharedUp, "shared.up", "the shared expert", "the shared expert", kShared)                          \
  PART(ROW, kSharedDown, "shared.down", "the shared expert", "the shared expert", kShared)
#define TARE_WEIGHTS_OF(ROW, layer, name, what, inputs, of) ROW(layer##W, name ".w", what, kProjWeight, of, layer##In)
#define TARE_INPUTS_OF(ROW, layer, name, what, inputs, of) \
  ROW(layer##In, name ".in", "inputs of " inputs, kLayerHidden, of)

// Two rows, for each of the two Mambas of a layer that subtracts one from the other.
#define TARE_PAIR(ROW, site, name, what)                              \
  ROW(kMixer1##site, "mixer_1." name, what, kLayerHidden, kMambaPair) \
  ROW(kMixer2##site, "mixer_2." name, what, kLayerHidden, kMambaPair)

// The table of sites: name in code and in text, what it is (for docs/reference/sites.md), what plans may say about it
// (a constant of site.cc), the part of a model that has it, and of weights the input that they multiply.
#define TARE_SITES(ROW)                                                                                                \
  ROW(kEmbed, "embed", "embedded tokens", kOuterHidden, kModel)                                                        \
  TARE_LINEAR_LAYERS(TARE_WEIGHTS_OF, ROW)                                                                             \
  ROW(kExpertsGateUpW, "experts.gate_up.w", "weights of experts", kExpertWeight, kExperts, kExpertsGateUpIn)           \
  ROW(kExpertsDownW, "experts.down.w", "weights of experts", kExpertWeight, kExperts, kExpertsDownIn)                  \
  TARE_LINEAR_LAYERS(TARE_INPUTS_OF, ROW)                                                                              \
  ROW(kExpertsGateUpIn, "experts.gate_up.in", "inputs of the first matrices", kLayerHidden, kExperts)                  \
  ROW(kExpertsDownIn, "experts.down.in", "inputs of the second matrices", kChosenHidden, kExperts)                     \
  ROW(kQNorm, "q_norm", "after the norms, before rotary positions", kNormedQueryKey, kAttention)                       \
  ROW(kKNorm, "k_norm", "after the norms, before rotary positions", kNormedQueryKey, kOwnKeys)                         \
  ROW(kQ, "q", "queries after rotary positions, before 1/sqrt(d)", kQueries, kAttention)                               \
  ROW(kK, "k", "keys after rotary positions", kKeys, kOwnKeys)                                                         \
  ROW(kV, "v", "values", kValues, kOwnKeys)                                                                            \
  ROW(kAttnLogits, "attn_logits", "scaled scores, before the softmax", kScores, kAttention)                            \
  ROW(kProbs, "probs", "one softmax map; maps are subtracted after P x V (late)", kLateMaps, kAttention)               \
  ROW(kDifference, "difference", "P1 - lambda P2, subtracted before P x V (early)", kEarlyMaps, kAttention)            \
  ROW(kLambdaProjW, "lambda_proj.w", "projection of a lambda per token and head", kProjWeight, kLambda, kLambdaProjIn) \
  ROW(kLambdaProjIn, "lambda_proj.in", "inputs of that projection", kLayerHidden, kLambda)                             \
  ROW(kLambda, "lambda", "sigmoid of its output, one per token and head", kHeadSigmoid, kLambda)                       \
  ROW(kHeadOut, "head_out", "a head's output, before the head norm or gate", kHeadOutputs, kAttention)                 \
  ROW(kAttnGate, "attn_gate", "the sigmoid that multiplies head_out", kHeadSigmoid, kAttention)                        \
  ROW(kAttnOut, "attn_out", "output of attention", kLayerHidden, kAttention)                                           \
  ROW(kScanIn, "scan.in", "u of the scan, after convolution and silu", kLayerHidden, kMamba)                           \
  ROW(kScanDelta, "scan.delta", "its steps, after softplus", kLayerHidden, kMamba)                                     \
  ROW(kScanB, "scan.b", "B and C", kLayerHidden, kMamba)                                                               \
  ROW(kScanC, "scan.c", "B and C", kLayerHidden, kMamba)                                                               \
  ROW(kScanState, "scan.state", "states after each token, [states, channels]", kLayerHidden, kMamba)                   \
  ROW(kScanOut, "scan.out", "y with D u, before the gate; memory units read it", kLayerHidden, kMamba)                 \
  ROW(kMambaGate, "mamba.gate", "gates, before silu", kLayerHidden, kMamba)                                            \
  TARE_PAIR(ROW, ScanIn, "scan.in", "as scan and mamba.gate, of each of two")                                          \
  TARE_PAIR(ROW, ScanDelta, "scan.delta", "as scan and mamba.gate, of each of two")                                    \
  TARE_PAIR(ROW, ScanB, "scan.b", "as scan and mamba.gate, of each of two")                                            \
  TARE_PAIR(ROW, ScanC, "scan.c", "as scan and mamba.gate, of each of two")                                            \
  TARE_PAIR(ROW, ScanState, "scan.state", "as scan and mamba.gate, of each of two")                                    \
  TARE_PAIR(ROW, ScanOut, "scan.out", "as scan and mamba.gate, of each of two")                                        \
  TARE_PAIR(ROW, Gate, "gate", "as scan and mamba.gate, of each of two")                                               \
  TARE_PAIR(ROW, Out, "out", "outputs of the two, m1 and m2")                                                          \
  ROW(kMixerDifference, "mixer_difference", "m1 - lambda m2, before its norm", kLayerHidden, kMambaPair)               \
  ROW(kGmuGate, "gmu.gate", "gates, before silu", kLayerHidden, kMemoryUnit)                                           \
  ROW(kLayerOut, "layer_out", "hidden states after each layer", kLayerHidden, kLayer)                                  \
  ROW(kFinalNorm, "final_norm", "hidden states after the last norm", kOuterHidden, kModel)                             \
  ROW(kLmHeadW, "lm_head.w", "the LM head", kVocabularyWeight, kModel, kLmHeadIn)                                      \
  ROW(kLmHeadIn, "lm_head.in", "inputs of the LM head", kOuterHidden, kModel)                                          \
  ROW(kCacheK, "cache_k", "cached keys", kCachedKeys, kOwnKeys)                                                        \
  ROW(kCacheV, "cache_v", "cached values", kCachedValues, kOwnKeys)

enum class Site {
#define TARE_ENUMERATOR(site, ...) site,
  TARE_SITES(TARE_ENUMERATOR)
#undef TARE_ENUMERATOR
};

struct SiteInfo {
  Site site;
  std::string_view name, what;
  SiteOf of;
  std::optional<Site> input = std::nullopt;  // of weights
};

inline constexpr std::array kSites = std::to_array<SiteInfo>({
#define TARE_INFO(site, name, what, site_class, of, ...) \
  {Site::site, name, what, SiteOf::of __VA_OPT__(, Site::__VA_ARGS__)},
    TARE_SITES(TARE_INFO)
#undef TARE_INFO
});

constexpr const SiteInfo& Info(Site site) { return kSites[static_cast<size_t>(site)]; }
constexpr std::string_view Name(Site site) { return Info(site).name; }

constexpr bool IsWeight(Site site) { return Info(site).input.has_value(); }
// What a linear layer multiplies by these weights.
constexpr Site InputOf(Site weight) { return Info(weight).input.value(); }
// The weights that an input is multiplied by; empty for other sites.
constexpr std::optional<Site> WeightOf(Site input) {
  const auto found = std::ranges::find(kSites, std::optional(input), &SiteInfo::input);
  return found == kSites.end() ? std::nullopt : std::optional(found->site);
}

constexpr bool IsOfExperts(Site site) { return Info(site).of == SiteOf::kExperts; }
// Whether only layers without attention have the site: those of Mambas, or gated memory units, which read a scan.
constexpr bool IsOfScan(Site site) { return Info(site).of >= SiteOf::kMamba; }
constexpr bool IsCache(Site site) { return site == Site::kCacheK || site == Site::kCacheV; }

// The site of this name; nullopt for any other text, also for a group.
std::optional<Site> ParseSite(std::string_view name);

// Sites of a site's or group's name, in the enum's order; else empty.
std::span<const Site> ExpandSites(std::string_view name);

// A place in a model: a site with its layer, head, map and expert; the key of resolved plans, blocks and statistics.
// Files write -1, -1 and 0 for missing layers, heads and maps; what they hold is of all experts together.
struct SiteKey {
  Site site{};
  std::optional<int> layer;                  // empty outside the layers
  std::optional<int> head;                   // empty if not of one head
  std::optional<int> map;                    // 1 or 2; empty if of no map, or of both
  std::optional<int> expert = std::nullopt;  // of weights of one expert
  friend auto operator<=>(const SiteKey&, const SiteKey&) = default;
};

// "layer 3, head 1, map 2, attn_logits", "layer 3, expert 7, experts.down.w", for messages.
inline std::string TextOf(const SiteKey& key) {
  std::string text;
  if (key.layer) text += Formatted("layer {}, ", *key.layer);
  if (key.head) text += Formatted("head {}, ", *key.head);
  if (key.map) text += Formatted("map {}, ", *key.map);
  if (key.expert) text += Formatted("expert {}, ", *key.expert);
  return text + std::string(Name(key.site));
}

// What plans may say about a site: its selectors (l, h, m), granularities, options and integer formats. A granularity
// that the site lacks (heads of a weight) is refused. Formats:
//
//   unsigned integers                                values that cannot be negative; a difference, with a zero point
//   integers of 2 and 3 bits, other ranges of codes  weights, keys, values and caches
//   levels of a normal law                           weights, keys, values and caches, which take none of one bit
//   ternary codes, E8P                               weights
//   bf16                                             caches
//   all others but integers                          everywhere; in caches those of kernels/cache/panel.h
struct SiteClass {
  std::string_view kind;        // for docs/reference/sites.md, where classes of one kind differ by selectors alone
  std::string_view dimensions;  // letters of "lhm" that a selector may use
  std::span<const Granularity::Kind> granularities;
  std::string_view options;         // separated by blanks
  std::span<const Format> formats;  // signed ones first, if there are both
  std::string_view of_f32 = "";     // the options that f32 rules may have, too
  bool sums_over_tokens = false;    // the next product does: blocks that a format defines lie along tokens

  // f32 and the listed formats; also all others but those of weights, of caches, which have bf16, lists.
  bool Takes(Format format) const {
    const auto has = [this](Format one) { return std::ranges::find(formats, one) != formats.end(); };
    const bool grid = HasCodes(format) && !IsInteger(format) && Info(format).statistic == Statistic::kLargest;
    const bool list_of_caches = format.base == Format::kListed && Info(format).bits <= 4;
    return format == Format::kF32 || has(format) || (grid && (!has(Format::kBf16) || list_of_caches));
  }
  // n neighbours along the dimension of the next product's sums: keys of a score or map, tokens of v, else channels.
  Granularity InnerBlock(int n) const {
    if (sums_over_tokens) return {Granularity::Kind::kBlockChannel, n};
    const bool of_keys = std::ranges::find(granularities, Granularity::Kind::kRow) != granularities.end();
    return {of_keys ? Granularity::Kind::kBlock : Granularity::Kind::kGroup, n};
  }
  // The format that a number of bits alone means here; nullopt if none has that many.
  std::optional<Format> OfBits(int bits) const {
    const auto found = std::ranges::find(formats, bits, [](Format format) { return Info(format).bits; });
    return found == formats.end() ? std::nullopt : std::optional(*found);
  }
};

// All sites of a group have the same class.
const SiteClass& ClassOf(Site site);

}  // namespace tare
