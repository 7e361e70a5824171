// SPDX-License-Identifier: Apache-2.0
// Keys and values as the literature of caches rounds them, against loops over whole matrices in double: zero points and
// minima (KIVI), outliers set apart and keys before rotary positions (KVQuant), normal levels and sketches
// (TurboQuant).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/model/attention/sequence_cache.h"
#include "experiments/model/config/config.h"
#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "quant/format/grid.h"
#include "quant/format/hadamard.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"
#include "tests/support/simulated_plan.h"

namespace tare::keys_and_values_test {
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

// Rounds values that share a scale to `levels` codes, with 0 among them or not.
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
  refused("k=int4/head+min", "got int4+min with a scale per head, expected one per token, channel, group<N> or");
  refused("v=int2/tensor+min", "got int2+min with a scale per tensor");
  refused("k=int4/channel+zero+static", "got int4+zero with +static, +p or +top, expected ends of the values");
  refused("v=int4/token+zero+p99", "got int4+zero with +static, +p or +top");
  refused("k=int4/channel+min+keep4", "got int4+min with +keep, which would put a 0 into the range, expected +zero");
  refused("v=int4/head+full+static+mse", "got +full with +static and +mse, expected one of the two");
  EXPECT_NO_THROW(SimulatedPlan("k=int4/token+min+keep4", Config()));
  refused("k=normal2/head", "got normal2 with a scale per head, expected one per token, channel, group<N> or");
  refused("v=normal4/token+mse", "got normal4 with a clip, expected the root of the mean square of the values at hand");
  refused("k=normal2/channel+static", "got normal2 with a clip");
  refused("k=int4/token+mean", "got 'mean' with int4, expected normal4 to normal1 or a grid(...) with it");
  refused("k=normal4/token+min", "got 'min' with normal4, expected int8, int6, int4, int3 or int2 with it");
  refused("weights=normal4/channel+mean", "got 'mean', expected one of full zero min hadamard mse");
  refused("k=int4/head+outliers1", "got +outliers with a scale of the whole tensor or head");
  refused("k=int4/channel+static+outliers1", "got +outliers with +static");
  refused("k=nvfp4+outliers1", "got +outliers with a scale of the whole tensor or head");
  refused("k=normal3/block32.channel+keep4",
          "got normal3 with +keep and a scale per block32.channel, expected scales of");
  refused("k=normal3/channel+mean+keep4", "got normal3+mean with +keep");
  refused("k=int4/token+outliers1+sketch", "got +outliers with +sketch, which would change the outliers");
  refused("k=int4/token+smooth+prerotary", "got +prerotary with +smooth");
  refused("k=int4/head+static+prerotary", "got +static with +prerotary, expected scales of what is rounded");
  refused("v=int4/token+sketch", "got 'sketch', expected one of full");
  refused("v=int4/token+outliers51", "got 'outliers51', expected one percentage from 0.01 to 50: outliers1");
  refused("v=int4/token+outliers1e0", "got 'outliers1e0', expected one percentage");
  refused("v=int4/token+outliers1+outliers1", "expected one percentage");
  refused("q=int4/token+min", "got 'min', expected one of zero smooth smooth<N> smoothall hadamard static p mse top");
}

// The nearest of the levels, by the root of the mean square of each token.
TEST(KeysAndValues, NormalLevelsAreOfTheMeanSquare) {
  const std::vector<float> x = RandomNormal(kTokens * kWidth, 3), got = Rounded("v=normal3/token", Site::kV, x);
  for (int64_t t = 0; t < kTokens; ++t) {
    double squares = 0;
    for (int64_t c = 0; c < kWidth; ++c) squares += std::pow(double{x[t * kWidth + c]}, 2);
    const double rms = std::sqrt(squares / kWidth);
    for (int64_t c = 0; c < kWidth; ++c) {
      double nearest = INFINITY, least = INFINITY;
      for (const float level : kLloydMax3Levels) {
        const double error = std::fabs(x[t * kWidth + c] - level * rms);
        if (error < least) least = error, nearest = level * rms;
      }
      ASSERT_NEAR(got[t * kWidth + c], nearest, 1e-5) << t << ' ' << c;
    }
  }
  EXPECT_EQ(Rounded("k=normal1/token", Site::kK, std::vector<float>(kTokens * kWidth, 0.0f)),
            std::vector<float>(kTokens * kWidth, 0.0f));
}

// A channel's levels are its mean plus multiples of the root mean square about it.
TEST(KeysAndValues, NormalLevelsAboutTheMean) {
  std::vector<float> x = RandomNormal(kTokens * kWidth, 6);
  for (int64_t i = 0; i < std::ssize(x); ++i) x[i] += static_cast<float>(i % kWidth);
  const std::vector<float> got = Rounded("k=normal2/channel+mean", Site::kK, x);
  for (int64_t c = 0; c < kWidth; ++c) {
    double mean = 0, squares = 0;
    for (int64_t t = 0; t < kTokens; ++t) mean += double{x[t * kWidth + c]} / kTokens;
    for (int64_t t = 0; t < kTokens; ++t) squares += std::pow(x[t * kWidth + c] - mean, 2);
    const double deviation = std::sqrt(squares / kTokens);
    int others = 0;
    for (int64_t t = 0; t < kTokens; ++t) {
      const double from_mean = (x[t * kWidth + c] - mean) / deviation;
      const double expected = mean + deviation * NearestLevel(static_cast<float>(from_mean), kLloydMax2Levels);
      others += std::fabs(got[t * kWidth + c] - expected) > 1e-4;
    }
    EXPECT_LE(others, 1) << c;  // near the middle of two levels
  }
  EXPECT_EQ(Rounded("v=normal1/token+mean", Site::kV, std::vector<float>(kTokens * kWidth, 3.0f)),
            std::vector<float>(kTokens * kWidth, 3.0f));
  const std::vector<float> large(kTokens * kWidth, 2e38f);  // the sum of two is beyond f32
  EXPECT_EQ(Rounded("v=normal1/token+mean", Site::kV, large), large);
  EXPECT_EQ(Plan::Parse("k = normal3/channel+prerotary+mean").canonical(), "k=normal3/channel+mean+prerotary");
}

// A list about the mean has the values of a format with the same ones; without a mean its largest is the largest.
TEST(KeysAndValues, ListedLevelsAboutTheMean) {
  const std::vector<float> x = RandomNormal(kTokens * kWidth, 8);
  const std::string list = GridName(kLloydMax2Levels);
  EXPECT_EQ(Rounded("k=" + list + "/channel+mean+outliers1", Site::kK, x),
            Rounded("k=normal2/channel+mean+outliers1", Site::kK, x));
  EXPECT_NE(Rounded("k=" + list + "/channel", Site::kK, x), Rounded("k=" + list + "/channel+mean", Site::kK, x));
  EXPECT_EQ(Plan::Parse("v=grid(-1 0 1.50)/token+mean").canonical(), "v=grid(-1 0 1.5)/token+mean");
  for (const auto& [refused, got] :
       {std::pair{"v=grid(-1 0 1)/head+mean", "got grid(-1 0 1)+mean with a scale per head"},
        {"v=grid(-1 0 1)/token+mean+mse", "got grid(-1 0 1)+mean with a clip"},
        {"v=grid(-1 0 1)/token+zero", "got 'zero' with grid(-1 0 1)"}})
    EXPECT_THAT(Call([&] { SimulatedPlan(refused, Config()); }), ThrowsMessage<Error>(HasSubstr(got))) << refused;
}

// One value of 75 in each channel, the farthest from the median, and a range of the others.
TEST(KeysAndValues, OutliersStayAndWidenNoScale) {
  std::vector<float> x = RandomNormal(kTokens * kWidth, 4);
  for (int64_t c = 0; c < kWidth; ++c) x[(c * 7 % kTokens) * kWidth + c] = c % 2 == 0 ? 50 : -50;
  const std::vector<float> got = Rounded("k=int2/channel+min+outliers1", Site::kK, x);
  for (int64_t c = 0; c < kWidth; ++c) {
    float low = INFINITY, high = -INFINITY;
    for (int64_t t = 0; t < kTokens; ++t) {
      const float value = x[t * kWidth + c];
      if (std::fabs(value) < 50) low = std::min(low, value), high = std::max(high, value);
    }
    for (int64_t t = 0; t < kTokens; ++t) {
      const size_t i = t * kWidth + c;
      if (std::fabs(x[i]) == 50) {
        EXPECT_EQ(got[i], x[i]);
      } else {
        EXPECT_LE(std::fabs(got[i] - x[i]), 0.5001f * (high - low) / 3) << c;
      }
    }
  }
}

TEST(KeysAndValues, ASketchIsOfTheRotatedResidual) {
  const std::vector<float> x = RandomNormal(kTokens * kWidth, 5);
  const std::vector<float> got = Rounded("k=normal2/token+hadamard+sketch", Site::kK, x);
  std::vector<float> expected = x;
  const Hadamard& rotation = PlanRotation(kWidth);
  for (int64_t t = 0; t < kTokens; ++t) {
    float* const row = expected.data() + t * kWidth;
    rotation.Rotate(row, row);
    std::vector<float> levels(row, row + kWidth);
    double squares = 0;
    for (const float value : levels) squares += std::pow(double{value}, 2);
    const auto rms = static_cast<float>(std::sqrt(squares / kWidth));
    for (float& value : levels) value = NearestLevel(value / rms, kLloydMax2Levels) * rms;
    PlanSketch(kWidth).AddResidual({row, static_cast<size_t>(kWidth)}, levels);
    rotation.RotateBack(levels.data(), row);
  }
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << i;
}

// Squares of the changes of logits by a rule in a cache and by a rule at the sites, and of their difference.
struct CacheAndSites {
  double cached = 0, simulated = 0, apart = 0;
};

CacheAndSites Compare(const char* model_name, const char* of_cache, const char* of_sites) {
  Model model(GoldenFolder(model_name));
  const auto logits = [&](const char* plan) {
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
    SequenceCache cache(model.config(), run.cache().value_or(CachePlan{}));
    TokenBatch batch;
    const std::vector<int> tokens = GoldenRows(model_name).front();
    run.cache() ? batch.AddAfter(cache, 0, tokens) : batch.Add(0, tokens);
    return LogitsOf(model, batch, run.Begin(model));
  };
  const std::vector<float> exact = logits("f32"), cached = logits(of_cache), simulated = logits(of_sites);
  CacheAndSites squares;
  for (size_t i = 0; i < exact.size(); ++i) {
    squares.cached += std::pow(double{cached[i]} - exact[i], 2);
    squares.simulated += std::pow(double{simulated[i]} - exact[i], 2);
    squares.apart += std::pow(double{cached[i]} - simulated[i], 2);
  }
  return squares;
}

// Sites and a cache with the same rule differ only by the cache's 15 bits of queries and probabilities beside codes.
// Not so with +full, whose largest magnitude is midway between two codes, so that the last bit of an f32 decides.
TEST(KeysAndValues, AsInACache) {
  for (const char* name : {"diffllama-mha", "diff-v2-gqa", "smollm3"}) {
    for (const auto& [of_cache, of_sites] :
         {std::pair{"cache_k=int4/token+prerotary", "k=int4/token+prerotary"},
          {"cache_k=int2/token+min,cache_v=int2/token+min", "k=int2/token+min,v=int2/token+min"},
          {"cache_k=int3/token+zero,cache_v=int3/token+min", "k=int3/token+zero,v=int3/token+min"}}) {
      const CacheAndSites squares = Compare(name, of_cache, of_sites);
      EXPECT_GT(squares.cached, 0) << name << " " << of_cache;
      EXPECT_LT(squares.apart, 0.01 * squares.cached) << name << " " << of_cache;
    }
  }
}

// A cache holds the scales of groups in f16, a simulation in f32: steps are up to 2^-10 longer, so that the last of 16
// codes lies 1.5 % of a step away. One value in a hundred or two then has the code beside, and is a whole step off: 12
// times its mean square error, a tenth of all. Layers after it make that larger.
TEST(KeysAndValues, GroupsAsInACache) {
  for (const char* name : {"diffllama-mha", "diff-v2-gqa", "smollm3"}) {
    for (const auto& [of_cache, of_sites] : {std::pair{"cache_v=int4/group32", "v=int4/group32"},
                                             {"cache_v=int2/group32+min", "v=int2/group32+min"},
                                             {"cache_v=int3/group64+zero+hadamard", "v=int3/group64+zero+hadamard"}}) {
      const CacheAndSites squares = Compare(name, of_cache, of_sites);
      EXPECT_GT(squares.cached, 0) << name << " " << of_cache;
      EXPECT_NEAR(squares.cached, squares.simulated, 0.1 * squares.simulated) << name << " " << of_cache;
      EXPECT_LT(squares.apart, 0.2 * squares.cached) << name << " " << of_cache;
    }
  }
}

TEST(KeysAndValues, BeforeRotaryIsRefusedWhereThereIsNone) {
  for (const auto& [name, message] : {std::pair{"phi4flash", "which has no rotary positions"}, {"phi3", "longrope"}}) {
    const ModelSites sites = ModelSitesOf(LoadConfig(GoldenFolder(name)));
    EXPECT_THAT(Call([&] { ResolvedPlan(Plan::Parse("k=int4/token+prerotary"), sites, Carrying::kSimulated); }),
                ThrowsMessage<Error>(HasSubstr(message)))
        << name;
  }
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
}  // namespace tare::keys_and_values_test
