// SPDX-License-Identifier: Apache-2.0
// ReferenceDecode of decode_attention.h.
#include "kernels/decode/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/base/message.h"

namespace tare {
namespace {

// The largest |logit| of query t, over the maps of the problem's one head.
double LargestLogit(const AttentionProblem& problem, int64_t t) {
  const KeyRange keys = problem.Keys(t);
  const OutputHead& head = problem.heads[0];
  double largest = 0;
  for (int map = 0; map < head.Maps(); ++map) {
    const float* q = problem.q.Row(t, head.Q(map));
    for (int64_t s = keys.begin; s < keys.end; ++s) {
      const double logit = std::inner_product(q, q + problem.q.width, problem.k.Row(s, head.K(map)), 0.0);
      largest = std::max(largest, std::abs(logit * problem.scale));
    }
  }
  return largest;
}

}  // namespace

DecodeTruth ReferenceDecode(const OutputHead& head, int number, float scale, int64_t window, const DecodeSequence& s,
                            float softcap) {
  if (s.cache == nullptr) Fail("decode reference: got no cache");
  const KvCache& cache = *s.cache;
  CheckRange("decode reference", "newer tokens", s.newer, 0, cache.tokens());
  const int64_t tokens = cache.tokens() - s.newer;
  const int maps = head.Maps(), slices = head.VSlices(), d = cache.shape().k_width, width = cache.shape().v_width;
  if (tokens == 0)
    return {std::vector<double>(s.q.tokens * slices * width), std::vector<double>(s.q.tokens),
            std::vector<double>(s.q.tokens)};
  std::vector<float> k(tokens * maps * d), v(tokens * slices * width);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int map = 0; map < maps; ++map) cache.ReadKey(t, head.K(map), k.data() + (t * maps + map) * d);
    for (int i = 0; i < slices; ++i) cache.ReadValue(t, head.v[i], v.data() + (t * slices + i) * width);
  }
  const OutputHead alone{.q1 = head.q1, .k1 = 0, .q2 = head.q2, .k2 = maps - 1, .v = {0, slices == 1 ? kNoMap : 1}};
  LambdaView lambda = s.lambda;
  if (head.Differential()) lambda.data += number * lambda.head_stride;
  HeadsView<float> out = s.out;
  out.heads = 1;
  const AttentionProblem problem{
      .q = s.q,
      .k = DenseHeads<const float>(k.data(), tokens, maps, d),
      .v = DenseHeads<const float>(v.data(), tokens, slices, width),
      .heads = {&alone, 1},
      .lambda = lambda,
      .mask = {.kind = window == 0 ? Mask::Kind::kCausal : Mask::Kind::kWindow, .window = window},
      .scale = scale,
      .softcap = softcap,
      .sinks = s.sinks,
      .out = out};
  DecodeTruth truth{ReferenceAttentionDouble(problem), ReferenceMagnitudes(problem), {}};
  for (int64_t t = 0; t < s.q.tokens; ++t)
    truth.bounds.push_back(kDecodeBound * (1 + LargestLogit(problem, t)) * truth.magnitudes[t]);
  return truth;
}

}  // namespace tare
