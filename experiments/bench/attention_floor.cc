// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/attention_floor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/prefix_mean.h"
#include "quant/base/aligned.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// Values that share a scale, `count` of them `stride` apart, become code * scale.
void Dequantize(float* x, int64_t count, int64_t stride, Format format) {
  float absmax = 0;
  for (int64_t i = 0; i < count; ++i) absmax = std::max(absmax, std::fabs(x[i * stride]));
  const Scale scale = ScaleFor(absmax, format);
  for (int64_t i = 0; i < count; ++i)
    x[i * stride] = static_cast<float>(CodeOf(x[i * stride], scale.inv, format)) * scale.scale;
}

// A dense copy, less the mean where there is one; `quantize` rounds it; then the mean again.
template <typename Quantize>
std::vector<float> Coded(HeadsView<const float> x, bool smooth, Quantize quantize) {
  std::vector<float> mean(static_cast<size_t>(x.heads) * x.width), values(mean.size() * x.tokens);
  if (smooth) MeanOfPrefix(x, mean.data());
  const HeadsView<float> copy = DenseHeads(values.data(), x.tokens, x.heads, x.width);
  const auto shift = [&](float sign) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += sign * mean[i % mean.size()];
  };
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int head = 0; head < x.heads; ++head) std::copy_n(x.Row(t, head), x.width, copy.Row(t, head));
  }
  shift(-1);
  quantize(copy);
  shift(1);
  return values;
}

auto ByToken(Format format) {
  return [format](HeadsView<float> x) {
    for (int64_t t = 0; t < x.tokens; ++t) {
      for (int head = 0; head < x.heads; ++head) Dequantize(x.Row(t, head), x.width, 1, format);
    }
  };
}

auto ByBlockAndChannel(Format format, int64_t block) {
  return [format, block](HeadsView<float> x) {
    for (int64_t t = 0; t < x.tokens; t += block) {
      for (int i = 0; i < x.heads * x.width; ++i)
        Dequantize(x.Row(t, 0) + i, std::min(block, x.tokens - t), x.token_stride, format);
    }
  };
}

}  // namespace

AttentionInputs::Errors FloorErrors(const AttentionInputs& inputs, const ExecutedPlan& plan) {
  AttentionProblem p = inputs.problem();
  const AttentionPlan& a = plan.attention;
  const int64_t block = a.v_scale == AttentionPlan::ValueScale::kBlock ? a.block : p.v.tokens;
  const std::vector<float> q = Coded(p.q, plan.smooth_q, ByToken(a.q)), k = Coded(p.k, plan.smooth_k, ByToken(a.k)),
                           v = Coded(p.v, plan.smooth_v, ByBlockAndChannel(a.v, block));
  p.q = DenseHeads(q.data(), p.q.tokens, p.q.heads, p.q.width);
  p.k = DenseHeads(k.data(), p.k.tokens, p.k.heads, p.k.width);
  p.v = DenseHeads(v.data(), p.v.tokens, p.v.heads, p.v.width);
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(p));
  FusedAttention(p, workspace.span());
  return inputs.ErrorsOfOut();
}

}  // namespace tare
