// SPDX-License-Identifier: Apache-2.0
// The executed kernels against the plan in plain loops (every integer the same: outputs differ by the rounding of f32
// sums), and against the double reference (bands that separate a working kernel from a subtly broken one).
#include "kernels/attention/integer/executed_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "hwy/detect_targets.h"
#include "hwy/targets.h"

#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/call.h"
#include "tests/support/executed.h"
#include "tests/support/random_attention.h"
#include "tests/support/whole_references.h"

namespace tare::executed_attention_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Order = AttentionPlan::Order;

void ExpectTheCodes(const AttentionPlan& plan, RandomAttention& in, const std::string& what) {
  Execute(plan, in);
  for (int64_t t = 0; t < in.problem.q.tokens; ++t) {
    for (int head = 0; head < in.problem.out.heads; ++head)
      ASSERT_EQ(WrongCodes(plan, in.problem, t, head), "") << what;
  }
}

// A tile of queries and a tail; one block of 128 keys, two of 64, and a tail.
TEST(ExecutedAttention, EveryFamilyOrderAndMask) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2}) {
    for (const Order order : {Order::kLate, Order::kEarly}) {
      if (family == HeadKind::kStandard && order == Order::kEarly) continue;
      for (const Mask mask : {Mask{Mask::Kind::kFull}, Mask{Mask::Kind::kCausal}, Mask{Mask::Kind::kWindow, 37}}) {
        RandomAttention in({.family = family, .queries = 66, .keys = 140, .mask = mask});
        ExpectTheCodes(PlanOf(order), in, "block 64");
        if (mask.kind == Mask::Kind::kWindow && order == Order::kLate)
          ExpectTheCodes(PlanOf(order, 128), in, "block 128");
      }
    }
  }
}

TEST(ExecutedAttention, Tails) {
  int pad = 0;
  for (const Order order : {Order::kLate, Order::kEarly}) {
    for (const int64_t keys : {1, 2, 15, 63, 64, 65, 129}) {
      for (const int64_t queries : {1, 17, 65}) {
        const int d = static_cast<int>(keys % 7 + queries % 5 + 1), width = static_cast<int>(keys % 66 + 1);
        RandomAttention in({.heads = 1, .queries = queries, .keys = keys, .d = d, .v_width = width, .pad = pad++ % 4});
        ExpectTheCodes(PlanOf(order), in, std::to_string(queries) + " x " + std::to_string(keys));
      }
    }
  }
}

TEST(ExecutedAttention, Precisions) {
  for (const AttentionPrecision& precision : kAttentionPrecisions) {
    RandomAttention in({.heads = 1, .queries = 66, .keys = 90});
    AttentionPlan plan = PlanOf(precision, 64);
    ExpectTheCodes(plan, in, std::string(precision.name));
    plan.v_scale = AttentionPlan::ValueScale::kSequence;
    ExpectTheCodes(plan, in, std::string(precision.name) + ", V's scale of the sequence");
  }
}

// Where lambda is small the difference leans to one side, and a zero point gives its codes to that side.
TEST(ExecutedAttention, AZeroPointIsNearerToTheReference) {
  for (const float lambda : {0.0f, 0.5f, 0.8f}) {
    RandomAttention in({.queries = 300, .keys = 300, .d = 64, .v_width = 128});
    std::ranges::fill(in.lambda, lambda);
    ReferenceAttention(in.problem);
    const std::vector<float> want = in.out;
    AttentionPlan plan = PlanOf(Order::kEarly);
    plan.probs = Format::kInt6;
    const double symmetric = RelativeError(Execute(plan, in), want);
    plan.probs = Format::kU6;
    EXPECT_LT(RelativeError(Execute(plan, in), want), 0.95 * symmetric) << lambda;
  }
}

TEST(ExecutedAttention, QuantizedLogits) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    for (const Format& format : kSignedFormats) {
      for (const Mask mask : {Mask{Mask::Kind::kCausal}, Mask{Mask::Kind::kWindow, 37}}) {
        RandomAttention in({.heads = 1, .queries = 130, .keys = 200, .mask = mask});
        AttentionPlan plan = PlanOf(order, 128);
        plan.logits = format;
        ExpectTheCodes(plan, in, Name(format));
      }
    }
  }
}

TEST(ExecutedAttention, QuantizedLogitsOfZeros) {
  RandomAttention in({.heads = 1, .queries = 70, .keys = 70});
  std::ranges::fill(in.q, 0.0f);
  AttentionPlan plan = PlanOf(Order::kEarly);
  plan.logits = Format::kInt6;
  ExpectTheCodes(plan, in, "zeros");
}

TEST(ExecutedAttention, Means) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    RandomAttention in({.queries = 66, .keys = 90});
    std::vector<float> k_mean(2 * 16), v_mean(32);
    for (size_t i = 0; i < k_mean.size(); ++i) k_mean[i] = 0.1f * static_cast<float>(i) - 1;
    for (size_t i = 0; i < v_mean.size(); ++i) v_mean[i] = 0.2f * static_cast<float>(i) - 2;
    AttentionPlan plan = PlanOf(order);
    plan.k_mean = k_mean.data();
    plan.v_mean = v_mean.data();
    ExpectTheCodes(plan, in, "means");
  }
}

// Magnitudes that tokens share exceed their own, are exceeded by them, or are none at all; with means and without.
TEST(ExecutedAttention, ScalesOfSharedMagnitudes) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    RandomAttention in({.queries = 66, .keys = 130, .d = 18});
    std::vector<float> q_absmax(4 * 66), k_absmax(2 * 130), means(4 * 18, 0.3f);
    for (size_t i = 0; i < q_absmax.size(); ++i) q_absmax[i] = static_cast<float>(i % 5);
    for (size_t i = 0; i < k_absmax.size(); ++i) k_absmax[i] = static_cast<float>(i % 7);
    for (const float* mean : {static_cast<const float*>(nullptr), static_cast<const float*>(means.data())}) {
      AttentionPlan plan = PlanOf(order);
      plan.q_mean = plan.k_mean = mean;
      plan.q_absmax = q_absmax.data(), plan.k_absmax = k_absmax.data();
      ExpectTheCodes(plan, in, "shared");
    }
  }
}

// Rows that are the mean alone have no codes of their own; 200 keys and a window leave tails and empty rows.
TEST(ExecutedAttention, AMeanOfQ) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kV2}) {
    for (const Format logits : {Format::kF32, Format::kInt6}) {
      RandomAttention in({.family = family, .queries = 130, .keys = 200, .d = 18, .mask = {Mask::Kind::kWindow, 37}});
      std::vector<float> q_mean(static_cast<size_t>(in.problem.q.heads) * 18);
      for (size_t i = 0; i < q_mean.size(); ++i) q_mean[i] = 0.05f * static_cast<float>(i) - 1;
      for (int head = 0; head < in.problem.q.heads; ++head) {
        std::copy_n(q_mean.data() + head * 18, 18, const_cast<float*>(in.problem.q.Row(7, head)));
        std::copy_n(q_mean.data() + head * 18, 18, const_cast<float*>(in.problem.q.Row(9, head)));
        const_cast<float*>(in.problem.q.Row(9, head))[0] = std::nextafter(q_mean[head * 18], 2.0f);
      }
      for (const Order order : {Order::kLate, Order::kEarly}) {
        if (family == HeadKind::kStandard && order == Order::kEarly) continue;
        AttentionPlan plan = PlanOf(order);
        plan.q_mean = q_mean.data();
        plan.logits = logits;
        ExpectTheCodes(plan, in, Name(logits));
      }
    }
  }
}

TEST(ExecutedAttention, Lambdas) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    for (const float lambda : {0.0f, 1.0f, 1.7f, -0.4f}) {
      RandomAttention in({.heads = 1, .queries = 40, .keys = 100});
      std::ranges::fill(in.lambda, lambda);
      ExpectTheCodes(PlanOf(order), in, std::to_string(lambda));
      AttentionPlan unsigned_codes = PlanOf(order);
      unsigned_codes.probs = Format::kU8;
      ExpectTheCodes(unsigned_codes, in, std::to_string(lambda) + " u8");
    }
  }
}

// A sink of +40 nats in one key, in the first block and in a later one: the state carried over blocks must follow it.
TEST(ExecutedAttention, Sink) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    for (const int64_t sink : {0, 70, 199}) {
      RandomAttention in({.heads = 1, .queries = 200, .keys = 200});
      for (int map = 0; map < 2; ++map) {
        for (int64_t t = 0; t < 200; ++t) const_cast<float*>(in.problem.q.Row(t, map))[0] = 8;
        const_cast<float*>(in.problem.k.Row(sink, map))[0] = 20;
      }
      ExpectTheCodes(PlanOf(order), in, "sink at " + std::to_string(sink));
    }
  }
}

// The second block's logits exceed the first's by so much that what was summed before counts for nothing.
TEST(ExecutedAttention, ALaterBlockFarAboveTheFirst) {
  for (const float far : {50.0f, 110.0f, 400.0f}) {
    RandomAttention in({.heads = 1, .queries = 130, .keys = 130, .d = 4});
    for (size_t i = 0; i < in.q.size(); i += 4) in.q[i] = 2.0f;
    for (size_t i = 0; i < in.k.size(); i += 4) in.k[i] = i < in.k.size() / 2 ? 0.0f : far;
    ExpectTheCodes(PlanOf(Order::kLate), in, std::to_string(far));
  }
}

TEST(ExecutedAttention, EqualLogits) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    RandomAttention in({.queries = 100, .keys = 300});
    std::ranges::fill(in.q, 0.0f);
    ExpectTheCodes(PlanOf(order, 256), in, "zeros in q");
    ReferenceAttention(in.problem);
    const std::vector<float> want = in.out;
    EXPECT_LT(RelativeError(Execute(PlanOf(order, 256), in), want), 0.02);
  }
}

// Late maps are divided by the sums of their codes: values of 1 come out as 1 - lambda, however coarse the codes. In u4
// the codes themselves sum to 1 within some per cent only.
TEST(ExecutedAttention, LateMapsSumToOne) {
  for (const Format format : {Format::kU8, Format::kU4}) {
    RandomAttention in({.queries = 100, .keys = 300});
    for (float& x : in.v) x = 1.0f;
    AttentionPlan plan = PlanOf(Order::kLate);
    plan.probs = format;
    const std::vector<float> got = Execute(plan, in);
    const int width = in.problem.out.width, heads = in.problem.out.heads;
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / static_cast<size_t>(width);
      const float lambda = in.problem.lambda.At(static_cast<int64_t>(row) / heads, static_cast<int64_t>(row) % heads);
      ASSERT_NEAR(got[i], 1 - lambda, 43 * 0x1p-24 * (1 + lambda)) << Name(format);  // as ExpectTheCodes
    }
  }
}

TEST(ExecutedAttention, NearTheDoubleReference) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    RandomAttention in({.queries = 300, .keys = 300, .d = 64, .v_width = 128});
    ReferenceAttention(in.problem);
    const std::vector<float> want = in.out;
    const double error = RelativeError(Execute(PlanOf(order), in), want);
    EXPECT_GT(error, 0.005);  // better than 8 bits can be would mean that nothing was quantized
    EXPECT_LT(error, 0.025);
  }
}

// Beyond 49,152 keys the early order computes its scores twice. Few rows are enough: the last of the units.
TEST(ExecutedAttention, TooManyKeysToKeep) {
  RandomAttention in({.heads = 1, .queries = 2, .keys = 50000, .d = 8, .v_width = 4});
  AttentionPlan plan = PlanOf(Order::kEarly, 1024);
  const std::vector<float> got = Execute(plan, in);
  QuantizedReference(plan, in.problem);
  EXPECT_LT(RelativeError(got, in.out), 1e-5);
}

// 131,072 keys of equal logits: the sums of p reach 2^32, of codes 3.3e7.
TEST(ExecutedAttention, LongSums) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    RandomAttention in({.heads = 1, .queries = 1, .keys = 131072, .d = 4, .v_width = 2});
    std::ranges::fill(in.q, 0.0f);
    for (float& x : in.v) x += 1;  // the mean stays where the sums can be seen; each of V's roundings is averaged away
    ReferenceAttention(in.problem);
    const std::vector<float> want = in.out;
    EXPECT_LT(RelativeError(Execute(PlanOf(order, 1024), in), want), 1e-3);
  }
}

TEST(ExecutedAttention, ScratchIsAtMost4MiBAThread) {
  AttentionPlan by_row = PlanOf(Order::kLate, 1024);
  by_row.prob_scale = AttentionPlan::ProbScale::kRow;
  for (const AttentionPlan& plan : {PlanOf(Order::kLate, 1024), PlanOf(Order::kEarly, 1024), by_row}) {
    for (const int64_t keys : {512, 4096, 32768, 131072}) {
      RandomAttention in({.heads = 1, .queries = 64, .keys = 1, .d = 128, .v_width = 256});
      in.problem.k.tokens = in.problem.v.tokens = keys;
      SetThreads(1);
      const size_t one = WorkspaceBytes(plan, in.problem);
      SetThreads(2);
      EXPECT_LE(WorkspaceBytes(plan, in.problem) - one, size_t{4} << 20) << keys;
      SetThreads(0);
    }
  }
}

// Late, early, and early with a zero point and a mean of Q, of RandomAttention's 2 * heads times d.
std::vector<AttentionPlan> ThreePlans(const std::vector<float>& q_mean) {
  AttentionPlan all = PlanOf(Order::kEarly, 128);
  all.probs = Format::kU8;
  all.q_mean = q_mean.data();
  return {PlanOf(Order::kLate, 128), PlanOf(Order::kEarly, 128), all};
}

TEST(ExecutedAttention, SameBitsOnAnyNumberOfThreads) {
  const std::vector<float> q_mean(6 * 16, 0.3f);
  for (const AttentionPlan& plan : ThreePlans(q_mean)) {
    RandomAttention in({.heads = 3, .queries = 200, .keys = 300});
    SetThreads(1);
    const std::vector<float> want = Execute(plan, in);
    for (const int threads : {2, 7}) {
      SetThreads(threads);
      EXPECT_EQ(Execute(plan, in), want) << threads;
    }
    SetThreads(0);
  }
}

// 4.5 MB: past the caches on one thread and on two, where rows are whole lines.
TEST(ExecutedAttention, SameBitsPastTheCaches) {
  for (const Order order : {Order::kLate, Order::kEarly}) {
    RandomAttention in({.heads = 1, .queries = 8800, .keys = 9, .v_width = 128});
    SetThreads(7);
    const std::vector<float> want = Execute(PlanOf(order), in);
    AlignedBuffer<float> out(want.size());
    in.problem.out.data = out.data();
    for (const int threads : {1, 2}) {
      SetThreads(threads);
      std::fill_n(out.data(), out.size(), 7.0f);
      Execute(PlanOf(order), in);
      EXPECT_TRUE(std::ranges::equal(out.span(), want)) << threads;
    }
    SetThreads(0);
  }
}

// The stages for every Highway target of this CPU. SSE2 has no FMA: a code at a tie may differ, by one.
TEST(ExecutedAttention, SameBitsOnEveryInstructionSet) {
  const std::vector<float> q_mean(2 * 24, 0.3f);
  for (const AttentionPlan& plan : ThreePlans(q_mean)) {
    RandomAttention in({.heads = 1, .queries = 100, .keys = 200, .d = 24, .v_width = 48});
    const std::vector<float> want = Execute(plan, in);
    for (const int64_t target : {HWY_SSE2, HWY_AVX2, HWY_AVX3, HWY_AVX3_DL}) {
      if ((hwy::SupportedTargets() & target) == 0) continue;
      hwy::SetSupportedTargetsForTest(target);
      const std::vector<float> got = Execute(plan, in);
      hwy::SetSupportedTargetsForTest(0);
      if (target == HWY_SSE2)
        EXPECT_LT(RelativeError(got, want), 1e-3);
      else
        EXPECT_EQ(got, want) << hwy::TargetName(target);
    }
  }
}

TEST(ExecutedAttention, NamesWhereTheNaNIs) {
  const auto message = [](auto change, const char* text) {
    for (const Order order : {Order::kLate, Order::kEarly}) {
      RandomAttention in({});
      change(in);
      EXPECT_THAT(Call([&] { Execute(PlanOf(order), in); }), ThrowsMessage<Error>(HasSubstr(text)));
    }
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  message([](RandomAttention& in) { const_cast<float*>(in.problem.q.Row(69, 3))[7] = kNan; },
          "attention q: got nan at token 69, head 3, channel 7");
  message([](RandomAttention& in) { const_cast<float*>(in.problem.k.Row(5, 1))[15] = -kInf; },
          "attention k: got -inf at token 5, head 1, channel 15");
  message([](RandomAttention& in) { const_cast<float*>(in.problem.v.Row(64, 0))[31] = kInf; },
          "attention v: got inf at token 64, head 0, channel 31");
}

TEST(ExecutedAttention, RefusesAWorkspaceThatIsTooSmall) {
  RandomAttention in({});
  const AttentionPlan plan = PlanOf(Order::kLate);
  AlignedBuffer<std::byte> workspace(WorkspaceBytes(plan, in.problem));
  EXPECT_THAT(Call([&] { ExecutedAttention(plan, in.problem, workspace.span().first(workspace.size() - 1)); }),
              ThrowsMessage<Error>(HasSubstr("workspace")));
  EXPECT_THAT(Call([&] { ExecutedAttention(plan, in.problem, workspace.span().subspan(1)); }),
              ThrowsMessage<Error>(HasSubstr("workspace")));
}

}  // namespace
}  // namespace tare::executed_attention_test
