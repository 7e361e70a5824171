// SPDX-License-Identifier: Apache-2.0
// What is learned loses less on the same text, in the places that the plan names and nowhere else.
#include "experiments/observe/learned_levels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::learned_levels_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

std::vector<ScoredSequence> Sequences(int count, int tokens) {
  std::vector<ScoredSequence> sequences;
  for (int s = 0; s < count; ++s) {
    ScoredSequence& one = sequences.emplace_back();
    for (int i = 0; i < tokens; ++i) one.tokens.push_back((7 * i + 31 * s) % 120 + 1);
  }
  return sequences;
}

LearnedLevels Learn(const std::string& plan, int sequences = 8) {
  Model model(GoldenFolder("diffllama-mha"));
  return LearnLevels(model, Plan::Parse(plan), Sequences(sequences, 40), {});
}

TEST(LearnedLevels, EachLayerHasItsOwn) {
  const LearnedLevels learned =
      Learn("weights=int8/channel,k=normal3/channel+mean+outliers5+prerotary,v=normal2/token+mean");
  ASSERT_EQ(learned.layers.size(), 6u);  // two sites in three layers
  for (size_t i = 0; i < learned.layers.size(); ++i) {
    const LayerLevels& l = learned.layers[i];
    EXPECT_EQ(l.site, i < 3 ? Site::kK : Site::kV);
    EXPECT_EQ(l.layer, static_cast<int>(i % 3));
    EXPECT_EQ(l.levels.size(), i < 3 ? 8u : 4u);
    EXPECT_GT(l.loss, 0);
    EXPECT_LT(l.learned_loss, l.loss) << i;
  }
  // 40 tokens of a channel without the two farthest.
  const int64_t keys = learned.layers[3].values;
  EXPECT_EQ(learned.layers[0].values, keys / 40 * 38);
  ASSERT_EQ(learned.plan.rules().size(), 7u);
  EXPECT_EQ(learned.plan.rules()[0].text, "weights=int8/channel");
  EXPECT_THAT(learned.plan.rules()[2].text, StartsWith("k[l1]=grid(-"));
  EXPECT_THAT(learned.plan.rules()[2].text, HasSubstr(")/channel+mean+outliers5+prerotary"));
  // The learned plan can be learned again: nothing is gained on the same values of the first layer.
  const LearnedLevels again = Learn(learned.plan.canonical());
  EXPECT_EQ(again.layers[0].levels, learned.layers[0].levels);
  EXPECT_EQ(again.layers[0].loss, learned.layers[0].learned_loss);
}

// Selectors stay, shadowed layers have no rule, and the last one wins as before.
TEST(LearnedLevels, OnlyWhatTheRulesMatch) {
  const LearnedLevels learned = Learn("k[h0]=normal2/token+mean,k[l1]=int8/token,v[l2]=normal2/token+mean");
  ASSERT_EQ(learned.layers.size(), 3u);
  EXPECT_THAT(learned.plan.rules()[0].text, StartsWith("k[l0,h0]=grid("));
  EXPECT_THAT(learned.plan.rules()[1].text, StartsWith("k[l2,h0]=grid("));
  EXPECT_EQ(learned.plan.rules()[2].text, "k[l1]=int8/token");
  EXPECT_THAT(learned.plan.rules()[3].text, StartsWith("v[l2]=grid("));
}

// In a layer whose values are equal in each group, which no levels change, the rule keeps its own.
TEST(LearnedLevels, WhereAllValuesAreEqualTheRuleStays) {
  EditedCheckpoint golden(GoldenFolder("diffllama-mha"));
  EditedCheckpoint::Tensor& weight = golden.tensors.at("model.layers.1.self_attn.v_proj.weight");
  std::ranges::fill(weight.bytes, std::byte{0});
  const TemporaryFolder folder;
  golden.Write(folder / "zero");
  Model model(folder / "zero");
  const LearnedLevels learned =
      LearnLevels(model, Plan::Parse("v=int2/token,v=normal2/token+mean"), Sequences(8, 40), {});
  EXPECT_EQ(learned.layers.size(), 2u);
  ASSERT_EQ(learned.plan.rules().size(), 4u);
  EXPECT_EQ(learned.plan.rules()[2].text, "v[l1]=" + GridName(kLloydMax2Levels) + "/token+mean");
}

TEST(LearnedLevels, DoNotDependOnTheThreads) {
  const std::string plan = "k=normal3/channel+mean,v=normal3/token+mean";
  SetThreads(3);
  const LearnedLevels by_three = Learn(plan);
  SetThreads(1);
  EXPECT_EQ(Learn(plan).plan.canonical(), by_three.plan.canonical());
  SetThreads(0);
}

TEST(LearnedLevels, PlansWithoutLevelsAreRefused) {
  for (const char* plan : {"f32", "k=int4/token", "k=normal3/token+hadamard", "v=grid(-1 0 1)/token"})
    EXPECT_THAT(Call([&] { Learn(plan); }), ThrowsMessage<Error>(HasSubstr("got no rule with levels to learn")))
        << plan;
  EXPECT_THAT(Call([&] { Learn("v=normal2/token+mean,linear_in=int8/tensor+static"); }),
              ThrowsMessage<Error>(HasSubstr("got +static, expected scales of the values at hand")));
  EXPECT_THAT(Call([] {
                Model model(GoldenFolder("diffllama-mha"));
                LearnLevels(model, Plan::Parse("v=normal4/channel+mean"), Sequences(1, 1), {});
              }),
              ThrowsMessage<Error>(HasSubstr("levels: got groups of equal values alone")));
  EXPECT_THAT(Call([] {
                Model model(GoldenFolder("diffllama-mha"));
                LearnLevels(model, Plan::Parse("v=grid(-2 -1 0 1 2)/channel+mean"), Sequences(1, 2), {});
              }),
              ThrowsMessage<Error>(HasSubstr("of the bins, expected at least 5")));
}

}  // namespace
}  // namespace tare::learned_levels_test
