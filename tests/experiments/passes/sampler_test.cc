// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "quant/base/error.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Logarithms of probabilities 0.5, 0.3, 0.15, 0.05, in another order.
const std::vector<float> kLogits = {std::log(0.15f), std::log(0.5f), std::log(0.05f), std::log(0.3f)};

// How often each token is drawn.
std::map<int32_t, int> Drawn(const Sampling& sampling, int draws = 20000) {
  Sampler sampler(sampling);
  std::map<int32_t, int> times;
  for (int i = 0; i < draws; ++i) ++times[sampler.Pick(kLogits)];
  return times;
}

TEST(SamplerTest, WithoutTemperatureTheLikeliestTheFirstOfEquals) {
  Sampler sampler({});
  EXPECT_EQ(sampler.Pick(kLogits), 1);
  const float equal[] = {1, 3, 3, -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(sampler.Pick(equal), 1);
}

// 20,000 draws: four standard deviations of a share are 0.014 at most.
TEST(SamplerTest, DrawsAsOftenAsProbabilitiesSay) {
  std::map<int32_t, int> times = Drawn({.temperature = 1, .seed = 1});
  EXPECT_NEAR(times[1] / 20000.0, 0.5, 0.015);
  EXPECT_NEAR(times[3] / 20000.0, 0.3, 0.015);
  EXPECT_NEAR(times[2] / 20000.0, 0.05, 0.015);
  // At temperature 2 weights are roots: 0.387, 0.707, 0.224, 0.548.
  times = Drawn({.temperature = 2, .seed = 1});
  EXPECT_NEAR(times[1] / 20000.0, 0.379, 0.015);
  EXPECT_NEAR(times[2] / 20000.0, 0.120, 0.015);
}

// The smallest set that holds top_p, drawn by what its tokens weigh in it.
TEST(SamplerTest, TheNucleusHoldsTopP) {
  std::map<int32_t, int> times = Drawn({.temperature = 1, .top_p = 0.7, .seed = 2});
  EXPECT_EQ(times.size(), 2u);
  EXPECT_NEAR(times[1] / 20000.0, 0.5 / 0.8, 0.015);
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 0.81, .seed = 2}).size(), 3u);
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 1e-9, .seed = 2}).size(), 1u);
}

// These are the tokens of seed 7 on every machine.
TEST(SamplerTest, ASeedGivesItsTokens) {
  const auto tokens = [](uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    std::vector<int32_t> drawn;
    for (int i = 0; i < 12; ++i) drawn.push_back(sampler.Pick(kLogits));
    return drawn;
  };
  EXPECT_EQ(tokens(7), tokens(7));
  EXPECT_NE(tokens(7), tokens(8));
}

TEST(SamplerTest, BadInputIsNamed) {
  const auto refused = [](const Sampling& sampling, const char* message) {
    EXPECT_THAT([&] { Sampler{sampling}; }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused({.temperature = -1}, "--temperature: got -1");
  refused({.temperature = std::nan("")}, "--temperature: got nan");
  refused({.top_p = 0}, "--top-p: got 0");
  refused({.top_p = 1.5}, "--top-p: got 1.5");
  Sampler sampler({});
  const float nan[] = {1, std::nanf(""), 2}, infinite[] = {1, std::numeric_limits<float>::infinity()};
  EXPECT_THAT([&] { sampler.Pick(nan); }, ThrowsMessage<Error>(HasSubstr("NaN or infinity")));
  EXPECT_THAT([&] { sampler.Pick(infinite); }, ThrowsMessage<Error>(HasSubstr("NaN or infinity")));
}

}  // namespace
}  // namespace tare
