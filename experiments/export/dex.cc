// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "experiments/export/hugging_face.h"
#include "experiments/model/config/family.h"
#include "quant/base/message.h"

namespace tare {
namespace {

std::vector<float> ValuesOf(const ArrayFile& file, const std::string& name, const std::vector<int64_t>& shape) {
  const ArrayInfo* const found = file.Find(name);
  if (found == nullptr || found->shape != shape)
    Fail("{}: {}: got {}, expected shape {}", file.path().string(), name,
         found == nullptr ? "no such array" : "shape " + ShapeText(found->shape), ShapeText(shape));
  std::vector<float> values(static_cast<size_t>(*ElementCount(shape)));
  file.Values(*found).Read(0, 1, std::ssize(values), values.data());
  if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
    Fail("{}: {}: got NaN or infinity, expected finite values", file.path().string(), name);
  return values;
}

}  // namespace

Folding DexOf(const ArrayFile& file, const ModelConfig& c, int layer) {
  if (Maps(c) != 1 || GateWidth(c) > 0)
    Fail("{}: got {} model, expected heads of one map, without a gate of their outputs", file.path().string(),
         WithArticle(c.family));
  const std::string name = Formatted("model.layers.{}.self_attn.dex.", layer);
  const size_t d = static_cast<size_t>(c.head_dim);
  const float lambda = ValuesOf(file, name + "lambda_learn", {}).front();
  const std::vector<float> heads = ValuesOf(file, name + "head_mask", {c.heads});
  if (!std::ranges::all_of(heads, [](float x) { return x == 0 || x == 1; }))
    Fail("{}: {}head_mask: got other values, expected 0 and 1", file.path().string(), name);
  return [=, weight = ValuesOf(file, name + "weight", {c.head_dim, c.head_dim})](std::vector<float>& o_proj) {
    for (size_t at = 0; at < o_proj.size(); at += d) {
      if (heads[at / d % heads.size()] == 0) continue;
      const std::vector<double> row(o_proj.data() + at, o_proj.data() + at + d);
      for (size_t i = 0; i < d; ++i) {
        double change = 0;
        for (size_t j = 0; j < d; ++j) change += row[j] * weight[i * d + j];
        o_proj[at + i] = static_cast<float>(row[i] - lambda * change);
      }
    }
  };
}

}  // namespace tare
