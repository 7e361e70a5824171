// SPDX-License-Identifier: Apache-2.0
// Keys and values in few bits with zero points or minima (KIVI has these), against loops over whole matrices in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"
#include "tests/support/simulated_plan.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kTokens = 75, kWidth = 40;

ModelConfig Config() { return {.family = "llama", .layers = 1, .heads = 2, .kv_heads = 2}; }

std::vector<float> Rounded(const std::string& plan, Site site, std::vector<float> x) {
  SimulatedPlan quantizer(plan, Config());
  quantizer.BeginBatch(1);
  quantizer.Visit({.site = site,
                   .layer = 0,
                   .head = 0,
                   .rows = kTokens,
                   .first_columns = kWidth,
                   .values = x.data(),
                   .stride = kWidth},
                  0);
  return x;
}

// What `levels` codes make of values that share a scale, with 0 among them or not.
void RoundByHand(std::vector<float*>& group, int levels, bool has_zero) {
  double low = *group[0], high = low;
  for (const float* x : group) low = std::min<double>(low, *x), high = std::max<double>(high, *x);
  if (has_zero) low = std::min(low, 0.0), high = std::max(high, 0.0);
  const double step = (high - low) / (levels - 1), zero = has_zero ? std::nearbyint(-low / step) : 0;
  for (float* x : group) {
    const double code =
        std::clamp(std::nearbyint((*x - (has_zero ? 0 : low)) / step) + zero, 0.0, static_cast<double>(levels - 1));
    *x = static_cast<float>((code - zero) * step + (has_zero ? 0 : low));
  }
}

// tokens and channels of a group, counted from the first of each.
std::vector<float> ByHand(std::vector<float> x, int64_t tokens, int64_t channels, int levels, bool has_zero) {
  for (int64_t t = 0; t < kTokens; t += tokens) {
    for (int64_t c = 0; c < kWidth; c += channels) {
      std::vector<float*> group;
      for (int64_t i = t; i < std::min(t + tokens, kTokens); ++i) {
        for (int64_t j = c; j < std::min(c + channels, kWidth); ++j) group.push_back(&x[i * kWidth + j]);
      }
      RoundByHand(group, levels, has_zero);
    }
  }
  return x;
}

// Tails of 11 tokens and of 8 channels. In f32 a value near a tie may go to the other side: few do.
TEST(KeysAndValues, ZeroPointsOfTokensGroupsAndBlocksOfChannels) {
  std::vector<float> x = RandomNormal(kTokens * kWidth, 1);
  for (int64_t t = 0; t < kTokens; ++t) x[t * kWidth + 3] += 9;  // a channel of one sign
  for (const auto& [plan, site, tokens, channels, levels, has_zero] :
       {std::tuple{"k=int2/block32.channel+min", Site::kK, int64_t{32}, int64_t{1}, 4, false},
        {"k=int2/block32.channel+zero", Site::kK, int64_t{32}, int64_t{1}, 4, true},
        {"v=int2/group32+zero", Site::kV, int64_t{1}, int64_t{32}, 4, true},
        {"k=int4/token+zero", Site::kK, int64_t{1}, kWidth, 16, true},
        {"k=int3/channel+min", Site::kK, kTokens, int64_t{1}, 8, false},
        {"v=int3/block64.channel+min", Site::kV, int64_t{64}, int64_t{1}, 8, false}}) {
    const std::vector<float> got = Rounded(plan, site, x), expected = ByHand(x, tokens, channels, levels, has_zero);
    int others = 0;
    for (size_t i = 0; i < got.size(); ++i) others += std::abs(got[i] - expected[i]) > 1e-5f * (1 + std::abs(x[i]));
    EXPECT_LE(others, 3) << plan;
    EXPECT_NE(got, x) << plan;
  }
}

TEST(KeysAndValues, AClipOfLeastErrorHelps) {
  std::vector<float> x = RandomNormal(kTokens * kWidth, 2);
  const auto error = [&](const std::string& plan) {
    const std::vector<float> got = Rounded(plan, Site::kV, x);
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += std::pow(double{got[i]} - x[i], 2);
    return sum;
  };
  EXPECT_LT(error("v=int2/token+zero+mse"), 0.9 * error("v=int2/token+zero"));
  EXPECT_LT(error("v=int4/token+full"), error("v=int4/token"));
  EXPECT_LT(error("v=int3/token"), error("v=int2/token"));
}

// -8 to 7: values of one sign want another clip than their negatives.
TEST(KeysAndValues, AClipOfOneMoreCodeBelowZero) {
  EXPECT_EQ(Rounded("v=int2/token+full+mse", Site::kV, std::vector<float>(kTokens * kWidth, -3)),
            std::vector<float>(kTokens * kWidth, -3));
}

TEST(KeysAndValues, ARangeBeyondF32IsRefused) {
  std::vector<float> x(kTokens * kWidth, 1.0f);
  x[5] = std::numeric_limits<float>::max();
  x[6] = -x[5];
  EXPECT_THAT(Call([&] { Rounded("k=int4/token+zero", Site::kK, x); }),
              ThrowsMessage<Error>(HasSubstr("expected a magnitude whose scale in int4+zero fits in f32")));
  x[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Call([&] { Rounded("k=int4/token+zero", Site::kK, x); }),
              ThrowsMessage<Error>(HasSubstr("got NaN or infinity")));
}

TEST(KeysAndValues, WhatHasNoMeaningIsRefusedByRule) {
  const auto refused = [](const char* plan, const char* got) {
    EXPECT_THAT(Call([&] { SimulatedPlan(plan, Config()); }), ThrowsMessage<Error>(HasSubstr(got))) << plan;
  };
  refused("k=int4/head+zero", "got int4+zero with a scale per head, expected one per token, channel, group<N> or");
  refused("v=int2/tensor+min", "got int2+min with a scale per tensor");
  refused("k=int4/channel+zero+static", "got int4+zero with +static or +p, expected ends of the values themselves");
  refused("v=int4/token+zero+p99", "got int4+zero with +static or +p");
  refused("k=int4/channel+min+keep4", "got int4+min with +keep, which would put a 0 into the range, expected +zero");
  refused("v=int4/head+full+static+mse", "got +full with +static and +mse, expected one of the two");
  EXPECT_NO_THROW(SimulatedPlan("k=int4/token+min+keep4", Config()));
  refused("q=int4/token+zero", "got 'zero', expected one of smooth hadamard static p mse");
}

// Kernels have codes of 8, 6 and 4 bits around 0.
TEST(KeysAndValues, ExecutedOnesHaveTheKernelsFormats) {
  for (const auto& [rules, format] : {std::pair{"k=int3/token,v=int8/channel", "int3"},
                                      {"k=int4/token+zero,v=int8/channel", "int4+zero"},
                                      {"k=int8/token,v=int2/channel", "int2"},
                                      {"k=int8/token,v=int4/channel+full", "int4+full"}}) {
    const std::string plan = std::string("q=int8/token,probs=u8/block64,") + rules;
    EXPECT_THAT(Call([&] { ResolvedPlan(Plan::Parse(plan), ModelSitesOf(Config()), Carrying::kExecuted); }),
                ThrowsMessage<Error>(
                    HasSubstr(std::string("got ") + format + ", expected int8, int6 or int4; try simulating it")))
        << plan;
  }
}

}  // namespace
}  // namespace tare
