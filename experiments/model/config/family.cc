// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config/family.h"

#include <algorithm>

#include "experiments/plan/resolved_plan.h"
#include "quant/base/message.h"

namespace tare {

const Family& FamilyOf(const ModelConfig& config) { return FamilyNamed(config.family, "model_type"); }

std::vector<OutputHead> HeadTable(const ModelConfig& config) { return FamilyOf(config).heads(config); }

int Maps(const ModelConfig& config) { return HeadTable(config).front().Maps(); }

int64_t AttendedWidth(const ModelConfig& config) {
  int64_t slices = 0;
  for (const OutputHead& head : HeadTable(config)) slices += head.VSlices();
  return slices * config.ValueDim();
}

int64_t GateWidth(const ModelConfig& config) {
  if (config.gate == OutputGate::kNone) return 0;
  return config.gate == OutputGate::kPerHead ? 1 : config.ValueDim();
}

bool ProjectsLambda(const ModelConfig& config) {
  return std::ranges::contains(FamilyOf(config).linear, Site::kLambdaProjW, &LinearPlace::weight);
}

namespace {

bool IsOf(SiteOf part, const ModelConfig& config, int layer) {
  const LayerKind kind = config.Kind(layer);
  if (part == SiteOf::kExperts) return config.Routes(layer);
  if (part == SiteOf::kShared) return config.Routes(layer) && config.shared_ffn > 0;
  if (part == SiteOf::kFeedForward || part == SiteOf::kGate) return config.ffn > 0 && !config.Routes(layer);
  if (part == SiteOf::kMamba) return kind == LayerKind::kMamba;
  if (part == SiteOf::kMambaRank) return kind == LayerKind::kMamba && config.scan_rank > 0;
  if (part == SiteOf::kMambaPair) return kind == LayerKind::kMambaPair;
  if (part == SiteOf::kMemoryUnit) return kind == LayerKind::kMemoryUnit;
  if (part == SiteOf::kOwnKeys) return kind == LayerKind::kAttention;
  const bool latent = config.kv_rank > 0;
  if (part == SiteOf::kKeyProj) return kind == LayerKind::kAttention && !latent;
  if ((part == SiteOf::kQueryProj && latent) || (part == SiteOf::kLatent && !latent)) return false;
  const bool of_attention = part == SiteOf::kAttention || part == SiteOf::kLambda || part == SiteOf::kQueryProj;
  return !of_attention || kind == LayerKind::kAttention || kind == LayerKind::kSharedAttention;
}

}  // namespace

bool HasSite(Site site, const ModelConfig& config, int layer) { return IsOf(Info(site).of, config, layer); }

bool VectorPlace::In(const ModelConfig& config, int layer) const {
  return (has == nullptr || config.*has) && IsOf(of, config, layer);
}

int HeadsOf(Site site, const ModelConfig& config) {
  if (ClassOf(site).dimensions.find('h') == std::string_view::npos) return 0;
  if ((site == Site::kQNorm || site == Site::kKNorm) && !config.qk_norm) return 0;
  if (site == Site::kAttnGate && config.gate == OutputGate::kNone) return 0;
  if (site == Site::kLambda && !ProjectsLambda(config)) return 0;
  if (site == Site::kExpertsDownIn) return config.chosen_experts;
  if (site == Site::kKNorm || site == Site::kK || site == Site::kV) return config.kv_heads;
  if (site == Site::kDifference || site == Site::kLambda || site == Site::kHeadOut || site == Site::kAttnGate)
    return static_cast<int>(HeadTable(config).size());
  return config.heads;
}

std::optional<int> MapOf(std::span<const OutputHead> table, Site site, int head) {
  const bool of_key = site == Site::kK || site == Site::kKNorm, of_query = site == Site::kQ || site == Site::kQNorm;
  if (!of_key && !of_query && site != Site::kAttnLogits && site != Site::kProbs) return std::nullopt;
  bool first = false, second = false;
  for (const OutputHead& row : table) {
    first |= (of_key ? row.k1 : row.q1) == head;
    second |= row.Differential() && (of_key ? row.k2 : row.q2) == head;
  }
  if (first == second) return std::nullopt;
  return first ? 1 : 2;
}

SiteKey LinearLayer::InputKey() const { return InputKeyOf({place->weight, layer}); }

std::string LinearLayer::Tensor(const ModelConfig& config) const {
  std::string name = LayerTensor(config, layer, place->tensor);
  if (expert) name.replace(name.find("{}"), 2, Formatted("{}", *expert));
  return name;
}

std::vector<LinearLayer> LinearLayersOf(const ModelConfig& config, int layer) {
  std::vector<LinearLayer> all;
  for (const LinearPlace& place : LinearOf(FamilyOf(config), config, layer)) {
    if (place.experts == nullptr) all.push_back({&place, layer, std::nullopt});
    for (int expert = 0; place.experts != nullptr && expert < config.experts; ++expert)
      all.push_back({&place, layer, expert});
  }
  return all;
}

std::string LayerTensor(const ModelConfig& config, int layer, std::string_view tensor) {
  return Formatted("{}{}.{}", FamilyOf(config).names.layer, layer, tensor);
}

std::string_view HeadTensor(const ModelConfig& config) {
  const TensorNames& names = FamilyOf(config).names;
  return config.tied_embeddings ? names.embedding : names.head;
}

MatrixShape ShapeOf(Site weight, const ModelConfig& c) {
  if (weight == Site::kQProjW) return {c.heads * (c.head_dim + GateWidth(c)), c.hidden};
  if (weight == Site::kKProjW || weight == Site::kVProjW) return {int64_t{c.kv_heads} * c.head_dim, c.hidden};
  const int64_t rotated = c.rotary.Channels(c.head_dim);
  if (weight == Site::kQAProjW) return {c.q_rank, c.hidden};
  if (weight == Site::kKvAProjW) return {c.kv_rank + rotated, c.hidden};
  if (weight == Site::kQBProjW) return {int64_t{c.heads} * c.head_dim, c.q_rank};
  if (weight == Site::kAttnGateProjW) return {AttendedWidth(c), c.q_rank};
  if (weight == Site::kKvBProjW) return {c.kv_heads * (c.head_dim - rotated + c.ValueDim()), c.kv_rank};
  if (weight == Site::kSharedGateW || weight == Site::kSharedUpW) return {c.shared_ffn, c.hidden};
  if (weight == Site::kSharedDownW) return {c.hidden, c.shared_ffn};
  if (weight == Site::kOProjW) return {c.hidden, AttendedWidth(c)};
  if (weight == Site::kGateProjW || weight == Site::kUpProjW) return {c.DenseFfn(), c.hidden};
  if (weight == Site::kDownProjW) return {c.hidden, c.DenseFfn()};
  if (weight == Site::kLambdaProjW) return {std::ssize(HeadTable(c)), c.hidden};
  if (weight == Site::kExpertsGateUpW) return {(c.gate_with_up ? 2 : 1) * int64_t{c.ffn}, c.hidden};
  if (weight == Site::kExpertsDownW) return {c.hidden, c.ffn};
  const int64_t C = c.scan_channels;
  const auto in_rows = [&c](int64_t channels) { return channels + c.Convolved(channels) + c.scan_heads; };
  if (weight == Site::kMambaInProjW) return {in_rows(C), c.hidden};
  if (weight == Site::kMixer1InProjW || weight == Site::kMixer2InProjW) return {in_rows(c.PairChannels()), c.hidden};
  if (weight == Site::kMixer1OutProjW || weight == Site::kMixer2OutProjW) return {c.hidden, c.PairChannels()};
  if (weight == Site::kMambaXProjW) return {c.scan_rank + 2 * int64_t{c.scan_states}, C};
  if (weight == Site::kMambaDtProjW) return {C, c.scan_rank};
  if (weight == Site::kGmuInProjW) return {C, c.hidden};
  if (weight == Site::kMambaOutProjW || weight == Site::kGmuOutProjW) return {c.hidden, C};
  TARE_CHECK(weight == Site::kLmHeadW);
  return {c.Outputs(), c.hidden};
}

std::vector<int64_t> LeadingShape(const ModelConfig& c) {
  if (c.registers == 0) return {c.hidden};
  return {1, c.registers, c.hidden};
}

std::vector<int64_t> PositionsShape(const ModelConfig& c) {
  if (c.registers == 0) return {c.max_positions, c.hidden};
  return {1, c.Patches(), c.hidden};
}

}  // namespace tare
