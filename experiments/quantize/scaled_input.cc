// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/scaled_input.h"

#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"

namespace tare {

void RequireScaledInputs(const Family& family, std::string_view method) {
  if (family.smoothed.empty())
    Fail("{}: got {} model, whose inputs cannot be scaled; try another method", method, WithArticle(family.name));
}

std::vector<LinearLayer> LayersWithInput(Site site, const ModelConfig& config, int layer) {
  std::vector<LinearLayer> all = LinearLayersOf(config, layer);
  std::erase_if(all, [&](const LinearLayer& linear) { return InputOf(*linear.place) != site; });
  return all;
}

std::vector<int64_t> FactorOf(Site site, int64_t channels, const ModelConfig& config) {
  std::vector<int64_t> factor;
  if (site != Site::kOProjIn) {
    for (int64_t i = 0; i < channels; ++i) factor.push_back(i);
    return factor;
  }
  const bool of_norm = !FamilyOf(config).head_norm.empty();
  for (const OutputHead& head : HeadTable(config)) {
    if (of_norm) {
      for (int c = 0; c < head.VSlices() * config.head_dim; ++c) factor.push_back(c);
      continue;
    }
    for (int c = 0; c < config.head_dim; ++c) factor.push_back(int64_t{head.v[0]} * config.head_dim + c);
  }
  return factor;
}

}  // namespace tare
