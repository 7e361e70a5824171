// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/operands.h"

#include <algorithm>

#include "experiments/model/config/family.h"

namespace tare {
namespace {

// The mean over a window's queries.
double KeysSeen(std::optional<int> layer, const ModelConfig& config, int64_t window) {
  const int64_t sliding = layer ? config.Window(*layer) : 0, most = sliding == 0 ? window : std::min(sliding, window);
  return static_cast<double>(most * (most + 1) / 2 + (window - most) * most) / static_cast<double>(window);
}

double Product(Site weight, const ModelConfig& config) {
  if (IsOfExperts(weight))  // of those that a token chooses
    return double{1} * config.chosen_experts * config.hidden * config.ffn * (weight == Site::kExpertsGateUpW ? 2 : 1);
  const MatrixShape shape = ShapeOf(weight, config);
  return static_cast<double>(shape.in * shape.out);
}

// For sites that are in no product.
int64_t Values(Site site, const ModelConfig& c) {
  switch (site) {
    case Site::kQNorm:
    case Site::kKNorm:
      return int64_t{HeadsOf(site, c)} * c.head_dim;
    case Site::kHeadOut:
      return AttendedWidth(c);
    case Site::kLambda:
      return HeadsOf(site, c);
    case Site::kAttnGate:
      return int64_t{HeadsOf(site, c)} * GateWidth(c);
    case Site::kScanIn:
    case Site::kScanDelta:
    case Site::kScanOut:
    case Site::kMambaGate:
    case Site::kGmuGate:
      return c.scan_channels;
    case Site::kScanB:
    case Site::kScanC:
      return c.scan_states;
    case Site::kScanState:
      return int64_t{c.scan_channels} * c.scan_states;
    default:
      return c.hidden;
  }
}

}  // namespace

double OperandsPerToken(Site site, std::optional<int> layer, const ModelConfig& config, int64_t window) {
  if (IsWeight(site)) return Product(site, config);
  if (const std::optional<Site> weight = WeightOf(site)) return Product(*weight, config);
  const double keys = KeysSeen(layer, config, window), maps = Maps(config);
  const auto output = static_cast<double>(AttendedWidth(config));
  switch (site) {
    case Site::kQ:
    case Site::kK:
      return double{1} * config.heads * config.head_dim * keys;
    case Site::kAttnLogits:
      return config.heads * keys;
    case Site::kProbs:
    case Site::kV:
      return maps * output * keys;
    case Site::kDifference:
      return output * keys;
    case Site::kCacheK:
    case Site::kCacheV:
      return double{1} * config.kv_heads * config.head_dim * keys;
    default:
      return static_cast<double>(Values(site, config));
  }
}

}  // namespace tare
