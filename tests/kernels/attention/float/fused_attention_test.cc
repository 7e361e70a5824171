// SPDX-License-Identifier: Apache-2.0
// Fused f32 attention against the double reference: families, masks, tails.
#include "kernels/attention/float/fused_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/executed.h"
#include "tests/support/normal_floats.h"

namespace tare::fused_attention_test {
namespace {

struct Inputs {
  Inputs(std::vector<OutputHead> table, int q_heads, int k_heads, int v_heads, int64_t queries, int64_t keys, int d,
         int width, Mask mask)
      : heads(std::move(table)),
        q(queries * q_heads * d),
        k(keys * k_heads * d),
        v(keys * v_heads * width),
        lambda(queries * heads.size(), 0.6f) {
    std::mt19937 random(1);
    NormalFloats normal;
    for (std::vector<float>* x : {&q, &k, &v})
      for (float& value : *x) value = normal(random);
    const int out_width = heads[0].VSlices() * width, count = static_cast<int>(heads.size());
    out.assign(queries * count * out_width, 99.0f);
    problem = {.q = DenseHeads<const float>(q.data(), queries, q_heads, d),
               .k = DenseHeads<const float>(k.data(), keys, k_heads, d),
               .v = DenseHeads<const float>(v.data(), keys, v_heads, width),
               .heads = heads,
               .lambda = {lambda.data(), count, 1},
               .mask = mask,
               .scale = 1.0f / std::sqrt(static_cast<float>(d)),
               .out = DenseHeads(out.data(), queries, count, out_width)};
  }

  std::vector<OutputHead> heads;
  std::vector<float> q, k, v, lambda, out;
  AttentionProblem problem;
};

void ExpectNear(Inputs& in) {
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(in.problem));
  FusedAttention(in.problem, workspace.span());
  const std::vector<double> want = ReferenceAttentionDouble(in.problem), magnitudes = ReferenceMagnitudes(in.problem);
  const double bound = FusedBound(in.problem, ProductTypes::kF32);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(in.out[i], want[i], bound * (1 + magnitudes[i / in.problem.out.width])) << i;
}

TEST(FusedAttention, FamiliesAndMasks) {
  for (const Mask mask : {Mask{Mask::Kind::kFull}, Mask{Mask::Kind::kCausal}, Mask{Mask::Kind::kWindow, 37}}) {
    Inputs standard(StandardHeads(4, 2), 4, 2, 2, 130, 200, 16, 24, mask),
        v1(V1Heads(2, 1), 4, 2, 1, 130, 200, 16, 32, mask);
    Inputs llama(DiffLlamaHeads(4, 2), 4, 2, 2, 130, 200, 16, 20, mask),
        v2(V2Heads(2, 1), 4, 1, 1, 130, 200, 16, 16, mask);
    for (Inputs* in : {&standard, &v1, &llama, &v2}) ExpectNear(*in);
  }
}

TEST(FusedAttention, Tails) {
  for (const int64_t keys : {1, 2, 63, 64, 65}) {
    for (const int64_t queries : {1, 17, 65}) {
      Inputs in(V1Heads(1, 1), 2, 2, 1, queries, keys, static_cast<int>(keys % 7 + 1), static_cast<int>(keys % 66 + 1),
                {});
      ExpectNear(in);
    }
  }
}

TEST(FusedAttention, Bf16) {
  for (const int64_t keys : {1, 2, 63, 65, 200}) {
    for (const int width : {1, 7, 32}) {
      Inputs in(V1Heads(2, 1), 4, 2, 1, 130, keys, width, width + 1, {});
      AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(in.problem, ProductTypes::kBf16));
      FusedAttention(in.problem, workspace.span(), ProductTypes::kBf16);
      const std::vector<double> want = ReferenceAttentionDouble(in.problem);
      const std::vector<double> magnitudes = ReferenceMagnitudes(in.problem);
      double error = 0, size = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(in.out[i], want[i],
                    FusedBound(in.problem, ProductTypes::kBf16) * (1 + magnitudes[i / in.problem.out.width]))
            << keys << ' ' << width;
        error += (in.out[i] - want[i]) * (in.out[i] - want[i]), size += want[i] * want[i];
      }
      EXPECT_GT(error, 0);  // not f32
      EXPECT_LT(std::sqrt(error / size), 0.02) << keys << ' ' << width;
    }
  }
}

TEST(FusedAttention, RefusesProductsOfIntegers) {
  Inputs in(V1Heads(1, 1), 2, 2, 1, 4, 4, 4, 4, {});
  EXPECT_THROW(FusedWorkspaceBytes(in.problem, ProductTypes::kU8S8), Error);
}

TEST(FusedAttention, SinkOfFortyNats) {
  Inputs in(V1Heads(1, 1), 2, 2, 1, 100, 100, 16, 16, {});
  for (int map = 0; map < 2; ++map) {
    for (int64_t t = 0; t < 100; ++t) in.q[(t * 2 + map) * 16] = 8;
    in.k[(70 * 2 + map) * 16] = 20;
  }
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(in.problem));
  FusedAttention(in.problem, workspace.span());
  const std::vector<double> want = ReferenceAttentionDouble(in.problem);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(in.out[i], want[i], 2e-5) << i;
}

TEST(FusedAttention, SameBitsOnAnyNumberOfThreads) {
  Inputs in(V1Heads(3, 1), 6, 2, 1, 200, 300, 16, 32, {});
  std::vector<float> want;
  for (const int threads : {1, 2, 7}) {
    SetThreads(threads);
    AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(in.problem));
    FusedAttention(in.problem, workspace.span());
    if (want.empty()) want = in.out;
    EXPECT_EQ(in.out, want);
  }
  SetThreads(0);
}

}  // namespace
}  // namespace tare::fused_attention_test
