// SPDX-License-Identifier: Apache-2.0
// A soft cap of attention logits in every kernel, with logits far beyond it: the reference by hand, the others by it,
// and NaN is seen through it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/integer/executed_attention.h"
#include "kernels/decode/decode_attention.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/executed.h"
#include "tests/support/random_decode.h"
#include "tests/support/whole_references.h"

namespace tare::attention_softcap_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kCap = 2.5f;
const Mask kMasks[] = {{Mask::Kind::kFull}, {Mask::Kind::kCausal}, {Mask::Kind::kWindow, 37}};

// Logits of deviation 8 under a cap of 2.5.
void Cap(AttentionProblem& problem) { problem.scale *= 8, problem.softcap = kCap; }

std::vector<float> Fuse(RandomAttention& in, ProductTypes types = ProductTypes::kF32) {
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(in.problem, types));
  std::fill_n(workspace.data(), workspace.size(), std::byte{0x7f});
  FusedAttention(in.problem, workspace.span(), types);
  return in.out;
}

TEST(Softcap, TheReferenceWeighsTwoKeysByTheirCappedLogits) {
  RandomAttention in({.family = HeadKind::kStandard, .heads = 1, .queries = 1, .keys = 2, .d = 4, .v_width = 3});
  Cap(in.problem);
  double capped[2] = {};
  for (int s = 0; s < 2; ++s) {
    for (size_t i = 0; i < 4; ++i) capped[s] += double{in.q[i]} * in.k[static_cast<size_t>(s) * 4 + i];
    capped[s] = kCap * std::tanh(capped[s] * in.problem.scale / kCap);
  }
  in.problem.mask.kind = Mask::Kind::kFull;
  const double first = 1 / (1 + std::exp(capped[1] - capped[0]));
  const std::vector<double> got = ReferenceAttentionDouble(in.problem);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], first * in.v[i] + (1 - first) * in.v[3 + i], 1e-12);
}

// tanh is off by 4 units in the last place of at most the cap, which the bound's logits of 12 octaves hold.
TEST(Softcap, FusedIsNearTheReference) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder}) {
    for (const Mask& mask : kMasks) {
      RandomAttention in({.family = family, .queries = 70, .keys = 130, .mask = mask});
      Cap(in.problem);
      Fuse(in);
      const double bound = 8 * FusedBound(in.problem, ProductTypes::kF32);  // of logits 8 times as large
      for (int64_t t = 0; t < in.problem.q.tokens; ++t) {
        for (int h = 0; h < in.problem.out.heads; ++h) ASSERT_EQ(WrongFloats(in.problem, t, h, bound), "");
      }
      EXPECT_LT(RelativeError(Fuse(in, ProductTypes::kBf16), ReferenceAttentionDouble(in.problem)), 0.1);
    }
  }
}

// Against the plan in plain loops, whose tanh is another: a unit of an exponential that rounds otherwise is 2^-15.
TEST(Softcap, ExecutedIsThePlanInPlainLoops) {
  for (const AttentionPlan::Order order : {AttentionPlan::Order::kLate, AttentionPlan::Order::kEarly}) {
    for (const Mask& mask : kMasks) {
      for (const Format logits : {Format::kF32, Format::kInt6}) {
        RandomAttention in({.family = HeadKind::kV1, .queries = 30, .keys = 130, .mask = mask});
        Cap(in.problem);
        AttentionPlan plan = PlanOf(order);
        plan.logits = logits;
        const std::vector<float> got = Execute(plan, in);
        if (logits == Format::kF32) {
          EXPECT_LT(RelativeError(got, ReferenceAttentionDouble(in.problem)), 0.06);
        }
        QuantizedReference(plan, in.problem);
        EXPECT_LT(RelativeError(got, in.out), 1e-3);
      }
    }
  }
}

TEST(Softcap, QueriesLessTheirMeanHaveIt) {
  RandomAttention in({.family = HeadKind::kV1, .queries = 30, .keys = 130});
  Cap(in.problem);
  const std::vector<float> mean(static_cast<size_t>(in.problem.q.heads * in.problem.q.width), 0.5f);
  AttentionPlan plan = PlanOf(AttentionPlan::Order::kLate);
  plan.q_mean = mean.data();
  EXPECT_LT(RelativeError(Execute(plan, in), ReferenceAttentionDouble(in.problem)), 0.06);
}

// A row of zeros has codes of scale 0, whose cap in units of codes would be infinite.
TEST(Softcap, AQueryOfZerosWeighsAllKeysAlike) {
  RandomAttention in({.family = HeadKind::kStandard, .heads = 1, .queries = 1, .keys = 70, .mask = kMasks[0]});
  Cap(in.problem);
  std::fill_n(in.q.begin(), 16, 0.0f);
  const std::vector<double> want = ReferenceAttentionDouble(in.problem);
  EXPECT_LT(RelativeError(Fuse(in), want), 1e-6);
  EXPECT_LT(RelativeError(Execute(PlanOf(AttentionPlan::Order::kLate), in), want), 0.03);
}

TEST(Softcap, DecodingIsTheReferenceOverTheCache) {
  for (const CacheRules& rules : {CacheRules{}, CacheRules{.k = {Format::kInt8}, .v = {Format::kInt8}}}) {
    for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1}) {
      for (const Mask& mask : {kMasks[1], kMasks[2]}) {
        RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = 5, .keys = 300, .mask = mask}, rules);
        const int64_t window = mask.kind == Mask::Kind::kWindow ? mask.window : 0;
        const float scale = 8 * c.table.scale();
        c.table = DecodeHeads(c.tensors.heads, c.table.q_heads(), c.cache.shape(), scale, window, 0, kCap);
        c.Run();
        const int width = c.table.out_width();
        for (int h = 0; h < c.table.heads(); ++h) {
          const DecodeTruth truth = ReferenceDecode(c.tensors.heads[h], h, scale, window, c.sequence(), kCap);
          for (int64_t t = 0; t < 5; ++t) {
            double error = 0;
            for (int i = 0; i < width; ++i)
              error += std::pow(c.tensors.problem.out.Row(t, h)[i] - truth.out[static_cast<size_t>(t * width + i)], 2);
            EXPECT_LT(std::sqrt(error), truth.bounds[static_cast<size_t>(t)]) << h << " " << t;
          }
        }
      }
    }
  }
}

TEST(Softcap, WhatIsNotFiniteIsRefused) {
  RandomAttention in({.family = HeadKind::kStandard, .queries = 3, .keys = 5});
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float cap : {-1.0f, nan, infinity}) {
    in.problem.softcap = cap;
    EXPECT_THAT(Call([&] { CheckProblem(in.problem); }), ThrowsMessage<Error>(HasSubstr("attention, softcap: got ")));
    EXPECT_THAT(Call([&] { DecodeHeads(in.heads, 2, {1, 16, 1, 32}, 1.0f, 0, 0, cap); }),
                ThrowsMessage<Error>(HasSubstr("decode, softcap: got ")));
  }
  in.problem.softcap = kCap;
  in.k[3] = nan;
  EXPECT_THAT(Call([&] { Fuse(in); }), ThrowsMessage<Error>(HasSubstr("attention k: got nan at token 0")));
}

}  // namespace
}  // namespace tare::attention_softcap_test
