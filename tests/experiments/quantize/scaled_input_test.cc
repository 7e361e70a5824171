// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/scaled_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::scaled_input_test {
namespace {

ModelConfig Config(const char* golden) { return LoadConfig(GoldenFolder(golden)); }

TEST(ScaledInput, LayersThatReadOneInputTogether) {
  const auto readers = [](const char* golden, Site site) {
    std::vector<Site> weights;
    for (const LinearLayer& linear : LayersWithInput(site, Config(golden), 1)) weights.push_back(linear.place->weight);
    return weights;
  };
  using testing::ElementsAre;
  EXPECT_THAT(readers("diffllama-gqa", Site::kQProjIn), ElementsAre(Site::kQProjW, Site::kKProjW, Site::kVProjW));
  EXPECT_THAT(readers("diffllama-gqa", Site::kGateProjIn), ElementsAre(Site::kGateProjW, Site::kUpProjW));
  EXPECT_THAT(readers("diff-v2-gqa", Site::kQProjIn), testing::Contains(Site::kLambdaProjW));
  EXPECT_EQ(std::ssize(readers("mixtral", Site::kExpertsGateUpIn)), 2 * Config("mixtral").experts);  // gate and up
}

// llama-gqa: six heads of 16 channels on two values: heads 0 to 2 have the first.
TEST(ScaledInput, HeadsThatShareAValueShareFactors) {
  const std::vector<int64_t> factor = FactorOf(Site::kOProjIn, 96, Config("llama-gqa"));
  ASSERT_EQ(factor.size(), 96u);
  EXPECT_EQ(factor[3], 3);
  EXPECT_EQ(factor[2 * 16 + 3], 3);
  EXPECT_EQ(factor[3 * 16 + 3], 16 + 3);
  EXPECT_THAT(FactorOf(Site::kDownProjIn, 3, Config("llama-gqa")), testing::ElementsAre(0, 1, 2));
}

// phi4flash: four heads of 16 channels, which the same weights of a head norm scale.
TEST(ScaledInput, HeadsBehindANormShareItsFactors) {
  const std::vector<int64_t> factor = FactorOf(Site::kOProjIn, 64, Config("phi4flash"));
  ASSERT_EQ(factor.size(), 64u);
  for (size_t i = 0; i < factor.size(); ++i) EXPECT_EQ(factor[i], static_cast<int64_t>(i % 16));
}

TEST(ScaledInput, AFamilyWithoutIsRefusedByName) {
  EXPECT_THAT(Call([] { RequireScaledInputs(FamilyOf(Config("clip-text")), "awq"); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("awq: got a clip_text_model model")));
  EXPECT_NO_THROW(RequireScaledInputs(FamilyOf(Config("llama-gqa")), "awq"));
}

}  // namespace
}  // namespace tare::scaled_input_test
