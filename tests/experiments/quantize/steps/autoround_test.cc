// SPDX-License-Identifier: Apache-2.0
// That learning lowers the error of the layer's output, which is measured here through the model's own layer; that what
// it keeps is never worse than rounding to nearest.
#include "experiments/quantize/steps/autoround.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::autoround_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A golden model at its first layer, as stored.
struct Layer {
  explicit Layer(const std::string& golden, const char* rules = "weights=int3/group16")
      : model(GoldenFolder(golden)), plan(Plan::Parse(rules), ModelSitesOf(model), Carrying::kStored) {
    for (int b = 0; b < 3; ++b) {
      for (int s = 0; s < 2; ++s) {
        std::vector<int32_t> tokens;
        for (int i = 0; i < 40 - 17 * b; ++i) tokens.push_back((7 * i * i + 31 * s + 17 * b) % 90 + 1);
        batches[static_cast<size_t>(b)].Add(s, tokens);
      }
      Stream& in = input[static_cast<size_t>(b)];
      model.EmbedInto(batches[static_cast<size_t>(b)], in);
      Stream out = in;
      model.RunLayer(batches[static_cast<size_t>(b)], 0, out);
      output[static_cast<size_t>(b)] = std::move(out);
    }
  }

  std::vector<LayerTokens> Tokens() const {
    std::vector<LayerTokens> tokens;
    for (size_t b = 0; b < 3; ++b) tokens.push_back({&batches[b], input[b].x.data(), output[b].x.data()});
    return tokens;
  }
  // Mean square through the model with these codes.
  double LossWith(const LearnedLayer& learned) {
    for (const LearnedMatrix& m : learned.matrices()) model.UseCodes(m.linear, m.codes.view());
    const double loss = Loss();
    model.DropCodes(0);
    return loss;
  }
  double Loss() {
    double sum = 0;
    int64_t values = 0;
    for (size_t b = 0; b < 3; ++b) {
      Stream x = input[b];
      model.RunLayer(batches[b], 0, x);
      const int64_t count = batches[b].Rows() * model.config().hidden;
      values += count;
      for (int64_t i = 0; i < count; ++i)
        sum += (double{x.x[i]} - double{output[b].x[i]}) * (double{x.x[i]} - double{output[b].x[i]});
    }
    return sum / static_cast<double>(values);
  }

  Model model;
  ResolvedPlan plan;
  std::array<TokenBatch, 3> batches;
  std::array<Stream, 3> input, output;
};

LearnedLayer::Losses Learn(Layer& at, LearnedLayer& learned, int steps, uint64_t seed = 0) {
  return learned.Learn(at.Tokens(), steps, seed, [] {});
}

TEST(LearnedLayer, LosesWhatItSaysAndMuchLessThanTheNearest) {
  for (const auto& [golden, rules] : {std::pair{"llama-gqa", "weights=int3/group16"},
                                      {"diffllama-gqa", "weights=int2/group16+zero"},
                                      {"diff-v1-gqa", "weights=int4/channel+mse,k_proj.w=int3/group8"},
                                      {"diff-v2-gqa", "weights=int3/group8+zero"},
                                      {"qwen3-gate-element", "weights=int3/group8"},
                                      {"phi3", "weights=int3/group8"},
                                      {"llama-mha", "weights=int3/group16+hadamard"}}) {
    SCOPED_TRACE(golden);
    Layer at(golden, rules);
    LearnedLayer learned(at.model.config(), at.model.layers()[0], 0, at.plan, "test");
    const LearnedLayer::Losses losses = Learn(at, learned, 60);
    EXPECT_LT(losses.learned, 0.6 * losses.nearest);
    EXPECT_NEAR(at.LossWith(learned), losses.learned, 1e-4 * losses.learned);
  }
}

TEST(LearnedLayer, OnlyWhatThePlanRounds) {
  Layer at("diffllama-mha", "v_proj.w=int2/group16");
  LearnedLayer learned(at.model.config(), at.model.layers()[0], 0, at.plan, "test");
  const LearnedLayer::Losses losses = Learn(at, learned, 20);
  EXPECT_LT(losses.learned, losses.nearest);
  EXPECT_NEAR(at.LossWith(learned), losses.learned, 1e-4 * losses.learned);
  ASSERT_EQ(learned.matrices().size(), 1u);
  EXPECT_EQ(learned.matrices().front().linear.place->weight, Site::kVProjW);
}

// One step has the size 1, which moves every offset to one of its ends: then the nearest stays.
TEST(LearnedLayer, NeverWorseThanTheNearest) {
  for (const int steps : {1, 2, 3}) {
    Layer at("llama-gqa", "weights=int8/group16");
    LearnedLayer learned(at.model.config(), at.model.layers()[0], 0, at.plan, "test");
    const LearnedLayer::Losses losses = Learn(at, learned, steps);
    EXPECT_LE(at.LossWith(learned), losses.nearest * (1 + 1e-4)) << steps;
  }
}

TEST(LearnedLayer, TheSeedAndNothingElseIsRandom) {
  const auto codes = [](uint64_t seed, int threads) {
    SetThreads(threads);
    Layer at("diffllama-gqa");
    LearnedLayer learned(at.model.config(), at.model.layers()[0], 0, at.plan, "test");
    Learn(at, learned, 10, seed);
    SetThreads(0);
    std::string all;
    for (const LearnedMatrix& m : learned.matrices()) {
      all.append(reinterpret_cast<const char*>(m.codes.view().codes), m.codes.code_bytes());
      all.append(reinterpret_cast<const char*>(m.codes.view().scales), m.codes.scale_count() * sizeof(float));
    }
    return all;
  };
  const std::string one = codes(1, 1);
  EXPECT_EQ(codes(1, 3), one);
  EXPECT_NE(codes(2, 3), one);
}

TEST(LearnedLayer, EveryBatchIsCounted) {
  Layer at("llama-mha");
  LearnedLayer learned(at.model.config(), at.model.layers()[0], 0, at.plan, "test");
  int64_t count = 0;
  learned.Learn(at.Tokens(), 7, 0, [&] { ++count; });
  EXPECT_EQ(count, LearningBatches({80, 46, 12}, 7, 0));
}

// Long batches alone, short ones until there are as many tokens; each has its turn before any has two.
TEST(LearnedLayer, EveryStepSeesAsManyTokensAsTheLongestBatchHas) {
  const std::vector<int64_t> tokens = {100, 5, 30, 100, 70};
  std::vector<int> turns(tokens.size());
  for (const std::vector<size_t>& batches : BatchesOfSteps(tokens, 50, 3)) {
    int64_t sum = 0;
    for (const size_t index : batches) {
      EXPECT_LT(sum, 100) << "enough before";
      sum += tokens[index];
      ++turns[index];
    }
    EXPECT_GE(sum, 100);
  }
  EXPECT_LE(std::ranges::max(turns) - std::ranges::min(turns), 1);
  EXPECT_NE(BatchesOfSteps(tokens, 50, 4), BatchesOfSteps(tokens, 50, 3));
}

TEST(LearnedLayer, FamiliesWithoutAGradientAreRefused) {
  EXPECT_NO_THROW(CheckLearnedLayers(LoadConfig(GoldenFolder("diffllama-mha"))));
  EXPECT_THAT(Call([&] { CheckLearnedLayers(LoadConfig(GoldenFolder("motif"))); }),
              ThrowsMessage<Error>(HasSubstr("--method autoround: got a motif model")));
}

TEST(LearnedLayer, ErrorsThatAreNotFiniteAreRefused) {
  Layer at("llama-mha");
  LearnedLayer learned(at.model.config(), at.model.layers()[0], 0, at.plan, "test");
  at.output[1].x[3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Call([&] { Learn(at, learned, 3); }),
              ThrowsMessage<Error>(HasSubstr("test: layer 0: autoround: got an error")));
}

}  // namespace
}  // namespace tare::autoround_test
