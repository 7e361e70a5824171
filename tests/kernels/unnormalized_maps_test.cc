// SPDX-License-Identifier: Apache-2.0
// Late maps with one scale per row that are not normalized, against the formula in double, which shares nothing with
// the kernels:
//
//   c[s] = round(top exp(x[s] - max x)),   out = sum_s c[s] v[s] / (top (sum_s exp(x[s] - max x) + exp(sink - max x)))
//
// Q, K and V are integers times powers of two, whose scales lose nothing, so that all error is the exponential's and
// f32's: each exponential is within kShare of itself and 2^-15 of its tile's largest (exponentials.h). A code may
// differ, by one, where that moves it over a tie; the bound of an output is what such codes and the sum can change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "hwy/detect_targets.h"
#include "hwy/targets.h"
#include "tests/support/executed.h"

namespace tare::unnormalized_maps_test {
namespace {

using ProbScale = AttentionPlan::ProbScale;
using ValueScale = AttentionPlan::ValueScale;

// The cubic's share is 2.3e-4, the logit's rounding to half a unit adds 1.7e-4, 32767 for 2^15 3.1e-5, f32's products
// and RowExp2 less than 1e-5.
constexpr double kShare = 4.5e-4;

AttentionPlan Unnormalized(Format probs, float top, ValueScale v_scale) {
  AttentionPlan plan{.v_scale = v_scale, .probs = probs, .block = 64};
  plan.prob_scale = ProbScale::kRow, plan.top = top, plan.unnormalized = true;
  return plan;
}

// Codes of int8 in every value. Rows of Q and K, and every 64th of V, reach 127.
RandomAttention InCodes(const AttentionShape& shape, float scale, unsigned seed = 1) {
  RandomAttention in(shape);
  std::mt19937 random(seed);
  const auto fill = [&](const HeadsView<const float>& x, int64_t step, float unit, bool all) {
    for (int64_t t = 0; t < x.tokens; ++t) {
      for (int h = 0; h < x.heads; ++h) {
        for (int i = 0; i < x.width; ++i) {
          const int code = static_cast<int>(random() % 255) - 127, end = random() % 2 == 0 ? 127 : -127;
          const_cast<float*>(x.Row(t, h))[i] = unit * static_cast<float>(t % step == 0 && (all || i == 0) ? end : code);
        }
      }
    }
  };
  fill(in.problem.q, 1, 0x1p-5f, false);
  fill(in.problem.k, 1, 0x1p-5f, false);
  fill(in.problem.v, 64, 0x1p-6f, true);
  in.problem.scale = scale;
  return in;
}

struct Bounded {
  double value = 0, bound = 0;
};

// One row of a map: a value for each channel.
void AddMap(const AttentionPlan& plan, const AttentionProblem& p, int64_t t, const OutputHead& head, int map,
            double weight, std::vector<Bounded>& out) {
  const KeyRange keys = p.Keys(t);
  if (keys.begin == keys.end) return;
  std::vector<double> x(static_cast<size_t>(p.k.tokens), -INFINITY), tile(static_cast<size_t>(p.k.tokens / 64 + 1));
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    x[s] = 0;
    for (int i = 0; i < p.q.width; ++i) x[s] += double{p.q.Row(t, head.Q(map))[i]} * p.k.Row(s, head.K(map))[i];
    x[s] *= p.scale;
  }
  const double largest = *std::ranges::max_element(x);
  for (int64_t s = keys.begin; s < keys.end; ++s) tile[s / 64] = std::max(tile[s / 64], std::exp(x[s] - largest));
  const double top = plan.top > 0 ? plan.top : std::pow(2, Info(plan.probs).bits) - 1;
  // Logits in f32 are within a few of their last bits.
  const double share = kShare + 0x1p-22 * std::fabs(largest);
  const double sink = std::exp(p.Sink(head.Q(map)) - largest);
  double sum = sink, sum_error = share * sink;
  std::vector<double> codes(x.size()), flips(x.size());
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    const double e = std::exp(x[s] - largest), error = share * e + 0x1p-15 * tile[s / 64];
    codes[s] = std::nearbyint(top * e);
    flips[s] = std::fabs(top * e - std::floor(top * e) - 0.5) <= top * error;
    sum += e, sum_error += error;
  }
  for (int i = 0; i < p.out.width; ++i) {
    Bounded here;
    double magnitude = 0;
    for (int64_t s = keys.begin; s < keys.end; ++s) {
      const double v = p.v.Row(s, head.v[i / p.v.width])[i % p.v.width] / (top * sum);
      here.value += codes[s] * v, here.bound += flips[s] * std::fabs(v), magnitude += codes[s] * std::fabs(v);
    }
    const double of_sum = sum_error / (sum - sum_error);
    here.bound += of_sum * (std::fabs(here.value) + here.bound) + 0x1p-20 * magnitude;
    out[i].value += weight * here.value, out[i].bound += std::fabs(weight) * here.bound;
  }
}

std::string WrongIn(const AttentionPlan& plan, const AttentionProblem& p, int64_t step = 1) {
  for (int64_t t = 0; t < p.q.tokens; t += step) {
    for (int h = 0; h < p.out.heads; ++h) {
      std::vector<Bounded> want(p.out.width);
      for (int map = 0; map < p.heads[h].Maps(); ++map)
        AddMap(plan, p, t, p.heads[h], map, map == 0 ? 1.0 : -double{p.lambda.At(t, h)}, want);
      for (int i = 0; i < p.out.width; ++i) {
        const std::string wrong = WrongValue(Formatted("query {}, head {}, channel", t, h), i, p.out.Row(t, h)[i],
                                             want[i].value, want[i].bound + 1e-30);
        if (!wrong.empty()) return wrong;
      }
    }
  }
  return "";
}

std::string Wrong(const AttentionPlan& plan, RandomAttention& in, int64_t step = 1) {
  Execute(plan, in);
  return WrongIn(plan, in.problem, step);
}

TEST(UnnormalizedMaps, EveryFamilyMaskAndFormat) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2}) {
    for (const Mask mask : {Mask{Mask::Kind::kFull}, Mask{Mask::Kind::kCausal}, Mask{Mask::Kind::kWindow, 37}}) {
      for (const auto& [probs, top] : {std::pair(Format::kU8, 0.0f),
                                       {Format::kU8, 127.0f},
                                       {Format::kU8, 100.5f},
                                       {Format::kU6, 0.0f},
                                       {Format::kU4, 9.0f}}) {
        RandomAttention in = InCodes({.family = family, .queries = 66, .keys = 200, .mask = mask}, 0.1f);
        ASSERT_EQ(Wrong(Unnormalized(probs, top, ValueScale::kHead), in, 3), "")
            << static_cast<int>(family) << ' ' << Name(probs) << ' ' << top;
      }
    }
  }
}

TEST(UnnormalizedMaps, Tails) {
  for (const int64_t keys : {1, 2, 15, 63, 64, 65, 129, 300}) {
    for (const int64_t queries : {1, 17, 65}) {
      for (const ValueScale scale : {ValueScale::kHead, ValueScale::kSequence, ValueScale::kBlock}) {
        const int d = static_cast<int>(keys % 7 + queries % 5 + 1), width = static_cast<int>(keys % 66 + 1);
        RandomAttention in = InCodes({.heads = 1, .queries = queries, .keys = keys, .d = d, .v_width = width, .pad = 3},
                                     0.2f, static_cast<unsigned>(keys));
        ASSERT_EQ(Wrong(Unnormalized(Format::kU8, 127, scale), in), "") << queries << " x " << keys;
      }
    }
  }
}

// From equal logits, whose codes are all the largest, to rows that one key takes.
TEST(UnnormalizedMaps, FlatAndSharpRows) {
  for (const float scale : {1e-30f, 1e-3f, 0.02f, 0.5f, 4.0f, 100.0f}) {
    RandomAttention in = InCodes({.queries = 130, .keys = 300}, scale);
    ASSERT_EQ(Wrong(Unnormalized(Format::kU8, 127, ValueScale::kHead), in), "") << scale;
  }
}

// Each tile's logits exceed those of the tile before, by more than 60 octaves too: the row's maximum comes last.
TEST(UnnormalizedMaps, TheMaximumIsOfTheWholeRow) {
  for (const float step : {0.5f, 5.0f, 60.0f}) {
    RandomAttention in = InCodes({.heads = 1, .queries = 200, .keys = 200, .d = 4}, 1.0f);
    for (int64_t t = 0; t < 200; ++t) {
      for (int map = 0; map < 2; ++map) {
        float *const q = const_cast<float*>(in.problem.q.Row(t, map)), *const k =
                                                                           const_cast<float*>(in.problem.k.Row(t, map));
        std::fill_n(q, 4, 0.0f), std::fill_n(k, 4, 0.0f);
        q[0] = 1.0f, k[0] = step * static_cast<float>(t / 64), k[1] = 0x1p-7f * k[0] * static_cast<float>(t % 64);
        q[1] = t % 2 == 0 ? 1.0f : -1.0f;
      }
    }
    // K's scales are no powers of two here: what rounding moves is tested by the codes themselves.
    AttentionPlan plan = Unnormalized(Format::kU8, 127, ValueScale::kHead);
    Execute(plan, in);
    for (int64_t t = 3; t < 200; t += 14) ASSERT_EQ(WrongCodes(plan, in.problem, t, 0), "") << step;
  }
}

TEST(UnnormalizedMaps, SinksBelongToTheSum) {
  for (const float sink : {-30.0f, 1.0f, 12.0f}) {
    RandomAttention in = InCodes({.queries = 66, .keys = 130}, 0.1f);
    const std::vector<float> sinks(4, sink);
    in.problem.sinks = sinks;
    ASSERT_EQ(Wrong(Unnormalized(Format::kU8, 127, ValueScale::kHead), in), "") << sink;
  }
}

// Without a scale per row: codes relative to a block's maximum may be worth more; and a norm of codes with one scale.
TEST(UnnormalizedMaps, EachOptionAlone) {
  for (const Format logits : {Format::kF32, Format::kInt6}) {
    for (int options = 0; options < 8; ++options) {
      RandomAttention in({.queries = 70, .keys = 200});
      AttentionPlan plan{
          .v_scale = options % 3 == 0 ? ValueScale::kHead : ValueScale::kBlock, .logits = logits, .block = 64};
      if ((options & 1) != 0) plan.prob_scale = ProbScale::kRow;
      if ((options & 2) != 0) plan.top = 90.5f;
      plan.unnormalized = (options & 4) != 0;
      Execute(plan, in);
      for (int64_t t = 1; t < 70; t += 4)
        for (int head = 0; head < 2; ++head) ASSERT_EQ(WrongCodes(plan, in.problem, t, head), "") << options;
    }
  }
}

// Beyond 49,152 keys the scores are computed twice.
TEST(UnnormalizedMaps, MoreKeysThanAreKept) {
  RandomAttention in = InCodes({.heads = 1, .queries = 2, .keys = 50000, .d = 8, .v_width = 4}, 0.1f);
  AttentionPlan plan = Unnormalized(Format::kU8, 127, ValueScale::kHead);
  plan.block = 1024;
  ASSERT_EQ(Wrong(plan, in), "");
}

TEST(UnnormalizedMaps, EveryInstructionSet) {
  const AttentionPlan plan = Unnormalized(Format::kU8, 127, ValueScale::kHead);
  RandomAttention in = InCodes({.heads = 1, .queries = 100, .keys = 200, .d = 24, .v_width = 48}, 0.1f);
  const std::vector<float> want = Execute(plan, in);
  for (const int64_t target : {HWY_SSE2, HWY_SSSE3, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_AVX3_DL}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    const std::vector<float> got = Execute(plan, in);
    hwy::SetSupportedTargetsForTest(0);
    EXPECT_EQ(WrongIn(plan, in.problem), "") << hwy::TargetName(target);
    if (target == HWY_AVX2 || target == HWY_AVX3 || target == HWY_AVX3_DL) {
      EXPECT_EQ(got, want) << hwy::TargetName(target);
    }
  }
}

}  // namespace
}  // namespace tare::unnormalized_maps_test
