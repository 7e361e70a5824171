// SPDX-License-Identifier: Apache-2.0
// The named tensors of the forward pass that a plan may quantize and an observer may read. Two names stand for several
// sites: `weights` for the projection weights of a layer, `linear_in` for their inputs.
//
//   q_norm k_norm after the norms of queries and keys, before rotary positions
//   q k v         after rotary positions, before 1/sqrt(d)
//   attn_logits   scaled, before the softmax
//   probs         one map
//   difference    P1 - lambda P2
//   lambda        the sigmoid of lambda_proj's output, in models with one lambda per token and head
//   head_out      before the head norm or gate
//   attn_gate     the sigmoid that multiplies head_out
//
// In layers of a Mamba (kernels/scan/selective_scan.h) and in gated memory units:
//
//   scan.in scan.delta scan.b scan.c    what the scan reads: u after conv1d and silu, steps after softplus, B, C
//   scan.state    after each token, [states, channels]
//   scan.out      y with D u, before the gate; of one layer the memory that the units read
//   mamba.gate gmu.gate                 before silu
//
// Each expert has weights of its own. experts.gate_up.w are those of gate and up, one matrix or two. experts.down.in
// has a head for each of a token's chosen experts: 0 is that of the largest router logit.
//
//   cache_k cache_v  cached keys and values (kernels/cache/); no pass shows them
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "quant/base/formatted.h"

namespace tare {

enum class Site {
  kEmbed,
  kQProjW,
  kKProjW,
  kVProjW,
  kOProjW,
  kGateProjW,
  kUpProjW,
  kDownProjW,
  kMambaInProjW,
  kMambaXProjW,
  kMambaDtProjW,
  kMambaOutProjW,
  kGmuInProjW,
  kGmuOutProjW,
  kExpertsGateUpW,
  kExpertsDownW,
  kQProjIn,
  kKProjIn,
  kVProjIn,
  kOProjIn,
  kGateProjIn,
  kUpProjIn,
  kDownProjIn,
  kMambaInProjIn,
  kMambaXProjIn,
  kMambaDtProjIn,
  kMambaOutProjIn,
  kGmuInProjIn,
  kGmuOutProjIn,
  kExpertsGateUpIn,
  kExpertsDownIn,
  kQNorm,
  kKNorm,
  kQ,
  kK,
  kV,
  kAttnLogits,
  kProbs,
  kDifference,
  kLambdaProjW,
  kLambdaProjIn,
  kLambda,
  kHeadOut,
  kAttnGate,
  kAttnOut,
  kScanIn,
  kScanDelta,
  kScanB,
  kScanC,
  kScanState,
  kScanOut,
  kMambaGate,
  kGmuGate,
  kLayerOut,
  kFinalNorm,
  kLmHeadW,
  kLmHeadIn,
  kCacheK,
  kCacheV,
};

struct SiteInfo {
  Site site;
  std::string_view name;
};

// In the order of the enum: kSites[i].site == Site(i).
inline constexpr std::array kSites = std::to_array<SiteInfo>({
    {Site::kEmbed, "embed"},
    {Site::kQProjW, "q_proj.w"},
    {Site::kKProjW, "k_proj.w"},
    {Site::kVProjW, "v_proj.w"},
    {Site::kOProjW, "o_proj.w"},
    {Site::kGateProjW, "gate_proj.w"},
    {Site::kUpProjW, "up_proj.w"},
    {Site::kDownProjW, "down_proj.w"},
    {Site::kMambaInProjW, "mamba.in_proj.w"},
    {Site::kMambaXProjW, "mamba.x_proj.w"},
    {Site::kMambaDtProjW, "mamba.dt_proj.w"},
    {Site::kMambaOutProjW, "mamba.out_proj.w"},
    {Site::kGmuInProjW, "gmu.in_proj.w"},
    {Site::kGmuOutProjW, "gmu.out_proj.w"},
    {Site::kExpertsGateUpW, "experts.gate_up.w"},
    {Site::kExpertsDownW, "experts.down.w"},
    {Site::kQProjIn, "q_proj.in"},
    {Site::kKProjIn, "k_proj.in"},
    {Site::kVProjIn, "v_proj.in"},
    {Site::kOProjIn, "o_proj.in"},
    {Site::kGateProjIn, "gate_proj.in"},
    {Site::kUpProjIn, "up_proj.in"},
    {Site::kDownProjIn, "down_proj.in"},
    {Site::kMambaInProjIn, "mamba.in_proj.in"},
    {Site::kMambaXProjIn, "mamba.x_proj.in"},
    {Site::kMambaDtProjIn, "mamba.dt_proj.in"},
    {Site::kMambaOutProjIn, "mamba.out_proj.in"},
    {Site::kGmuInProjIn, "gmu.in_proj.in"},
    {Site::kGmuOutProjIn, "gmu.out_proj.in"},
    {Site::kExpertsGateUpIn, "experts.gate_up.in"},
    {Site::kExpertsDownIn, "experts.down.in"},
    {Site::kQNorm, "q_norm"},
    {Site::kKNorm, "k_norm"},
    {Site::kQ, "q"},
    {Site::kK, "k"},
    {Site::kV, "v"},
    {Site::kAttnLogits, "attn_logits"},
    {Site::kProbs, "probs"},
    {Site::kDifference, "difference"},
    {Site::kLambdaProjW, "lambda_proj.w"},
    {Site::kLambdaProjIn, "lambda_proj.in"},
    {Site::kLambda, "lambda"},
    {Site::kHeadOut, "head_out"},
    {Site::kAttnGate, "attn_gate"},
    {Site::kAttnOut, "attn_out"},
    {Site::kScanIn, "scan.in"},
    {Site::kScanDelta, "scan.delta"},
    {Site::kScanB, "scan.b"},
    {Site::kScanC, "scan.c"},
    {Site::kScanState, "scan.state"},
    {Site::kScanOut, "scan.out"},
    {Site::kMambaGate, "mamba.gate"},
    {Site::kGmuGate, "gmu.gate"},
    {Site::kLayerOut, "layer_out"},
    {Site::kFinalNorm, "final_norm"},
    {Site::kLmHeadW, "lm_head.w"},
    {Site::kLmHeadIn, "lm_head.in"},
    {Site::kCacheK, "cache_k"},
    {Site::kCacheV, "cache_v"},
});

constexpr std::string_view Name(Site site) { return kSites[static_cast<size_t>(site)].name; }

constexpr bool IsWeight(Site site) {
  return (Site::kQProjW <= site && site <= Site::kExpertsDownW) || site == Site::kLambdaProjW || site == Site::kLmHeadW;
}

// Whether only layers of a Mamba have the site, or only gated memory units.
constexpr bool IsOfMamba(Site site) {
  return (Site::kMambaInProjW <= site && site <= Site::kMambaOutProjW) ||
         (Site::kMambaInProjIn <= site && site <= Site::kMambaOutProjIn) ||
         (Site::kScanIn <= site && site <= Site::kMambaGate);
}
constexpr bool IsOfMemoryUnit(Site site) {
  return site == Site::kGmuInProjW || site == Site::kGmuOutProjW || site == Site::kGmuInProjIn ||
         site == Site::kGmuOutProjIn || site == Site::kGmuGate;
}

// Whether only layers with a router and experts have the site.
constexpr bool IsOfExperts(Site site) {
  return site == Site::kExpertsGateUpW || site == Site::kExpertsDownW || site == Site::kExpertsGateUpIn ||
         site == Site::kExpertsDownIn;
}

constexpr bool IsCache(Site site) { return site == Site::kCacheK || site == Site::kCacheV; }

// The site of this name; nullopt for any other text, also for a group.
std::optional<Site> ParseSite(std::string_view name);

// The sites of a site's or a group's name, in the enum's order; empty for any other name.
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

}  // namespace tare
