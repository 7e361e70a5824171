// SPDX-License-Identifier: Apache-2.0
// Attention problems of a shape with seeded normal tensors, for tests and fuzzers.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/attention/heads.h"
#include "tests/support/normal_floats.h"

namespace tare {

enum class HeadKind { kStandard, kV1, kDiffLlamaOrder, kV2 };

struct AttentionShape {
  HeadKind family = HeadKind::kV1;
  int heads = 2;
  int kv = 1;
  int64_t queries = 70;
  int64_t keys = 70;
  int d = 16;
  int v_width = 32;
  Mask mask;
  int pad = 0;  // floats between rows, so that nothing is aligned
};

// Inputs of a shape, standard normal; padding is NaN, so that reading it is noticed.
class RandomAttention {
 public:
  explicit RandomAttention(const AttentionShape& s, unsigned seed = 1) : random_(seed) {
    const bool v1 = s.family == HeadKind::kV1, llama = s.family == HeadKind::kDiffLlamaOrder,
               standard = s.family == HeadKind::kStandard;
    heads = standard ? StandardHeads(s.heads, s.kv)
            : v1     ? V1Heads(s.heads, s.kv)
            : llama  ? DiffLlamaHeads(2 * s.heads, s.kv)
                     : V2Heads(s.heads, s.kv);
    lambda.resize(s.queries * s.heads);
    for (size_t i = 0; i < lambda.size(); ++i) lambda[i] = 0.2f + 0.001f * static_cast<float>(i % 700);
    const int slices = llama ? 2 : 1;
    problem.q = View(q, s.queries, standard ? s.heads : 2 * s.heads, s.d, s.pad);
    problem.k = View(k, s.keys, v1 ? 2 * s.kv : s.kv, s.d, s.pad);
    problem.v = View(v, s.keys, s.kv, s.v_width, s.pad);
    problem.heads = heads;
    problem.lambda = {lambda.data(), s.heads, 1};
    problem.mask = s.mask;
    problem.scale = 1.0f / std::sqrt(static_cast<float>(s.d));
    out.resize(s.queries * s.heads * slices * s.v_width, 99.0f);
    problem.out = DenseHeads(out.data(), s.queries, s.heads, slices * s.v_width);
  }

  std::vector<OutputHead> heads;
  std::vector<float> q, k, v, lambda, out;
  AttentionProblem problem;

 private:
  HeadsView<const float> View(std::vector<float>& memory, int64_t tokens, int count, int width, int pad) {
    NormalFloats normal;
    const int64_t row = int64_t{count} * (width + pad);
    memory.assign(tokens * row + 1, std::numeric_limits<float>::quiet_NaN());
    const HeadsView<const float> view{memory.data() + (pad > 0), tokens, count, width, row, width + pad};
    for (int64_t t = 0; t < tokens; ++t)
      for (int h = 0; h < count; ++h)
        for (int i = 0; i < width; ++i) const_cast<float*>(view.Row(t, h))[i] = normal(random_);
    return view;
  }

  std::mt19937 random_;
};

}  // namespace tare
