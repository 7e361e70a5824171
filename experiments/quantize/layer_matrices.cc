// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/layer_matrices.h"

#include <algorithm>

#include "experiments/model/linear/weights.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {

std::string LayerMatrices::Where(const std::string& tensor) const {
  return Formatted("{}: tensor '{}'", where_, tensor);
}

bool LayerMatrices::RoundsIn(int layer) const {
  return std::ranges::any_of(LinearLayersOf(config_, layer),
                             [&](const LinearLayer& linear) { return RuleFor(linear) != nullptr; });
}

WeightMatrix LayerMatrices::Stored(const std::string& name) const {
  const TensorView* const tensor = files_.Find(name);
  if (tensor != nullptr && tensor->shape.size() != 2)
    Fail("{}: got a tensor of {} dimensions, expected a matrix", Where(name), tensor->shape.size());
  return StoredMatrix(files_, name, Where(name));
}

int64_t LayerMatrices::StoredBytes(const std::string& name) const {
  const ForeignMatrix* const matrix = files_.FindForeign(name);
  return matrix != nullptr ? matrix->bytes() : static_cast<int64_t>(files_.Find(name)->bytes.size());
}

void LayerMatrices::ForEach(int layer, const ForMatrix& body) const {
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) Visit(linear, body);
}

void LayerMatrices::Visit(const LinearLayer& linear, const ForMatrix& body) const {
  const Rule* const rule = RuleFor(linear);
  if (rule == nullptr) return;
  const std::string name = linear.Tensor(config_) + ".weight";
  body(linear, name, *rule);
  files_.Release(name);
}

}  // namespace tare
