// SPDX-License-Identifier: Apache-2.0
// The named tensors of the forward pass that a plan may quantize and an observer may read. Two names stand for several
// sites: `weights` for the seven projection weights of a layer, `linear_in` for their inputs.
//
//   q_norm k_norm after the norms of queries and keys, before rotary positions
//   q k v         after rotary positions, before 1/sqrt(d)
//   attn_logits   scaled, before the softmax
//   probs         one map
//   difference    P1 - lambda P2
//   lambda        where it is of each token and head: the sigmoid of what lambda_proj puts out
//   head_out      before the head norm or gate
//   attn_gate     sigmoid, what head_out is multiplied by
//   cache_k cache_v  keys and values that decoding keeps (kernels/cache/); no pass shows them
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

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
  kQProjIn,
  kKProjIn,
  kVProjIn,
  kOProjIn,
  kGateProjIn,
  kUpProjIn,
  kDownProjIn,
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
    {Site::kQProjIn, "q_proj.in"},
    {Site::kKProjIn, "k_proj.in"},
    {Site::kVProjIn, "v_proj.in"},
    {Site::kOProjIn, "o_proj.in"},
    {Site::kGateProjIn, "gate_proj.in"},
    {Site::kUpProjIn, "up_proj.in"},
    {Site::kDownProjIn, "down_proj.in"},
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
    {Site::kLayerOut, "layer_out"},
    {Site::kFinalNorm, "final_norm"},
    {Site::kLmHeadW, "lm_head.w"},
    {Site::kLmHeadIn, "lm_head.in"},
    {Site::kCacheK, "cache_k"},
    {Site::kCacheV, "cache_v"},
});

constexpr std::string_view Name(Site site) { return kSites[static_cast<size_t>(site)].name; }

constexpr bool IsWeight(Site site) {
  return (Site::kQProjW <= site && site <= Site::kDownProjW) || site == Site::kLambdaProjW || site == Site::kLmHeadW;
}

constexpr bool IsCache(Site site) { return site == Site::kCacheK || site == Site::kCacheV; }

// The site of this name; nullopt for any other text, groups among them.
std::optional<Site> ParseSite(std::string_view name);

// The sites that a site's or a group's name stands for, in the enum's order; empty for a name that is neither.
std::span<const Site> ExpandSites(std::string_view name);

}  // namespace tare
