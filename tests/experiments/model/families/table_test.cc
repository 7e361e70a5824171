// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/families/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/family.h"
#include "experiments/model/families/differential.h"
#include "experiments/model/families/llama.h"
#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::families_table_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FamilyTableTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(&FamilyNamed("llama", "here"), &kLlama);
  EXPECT_EQ(&FamilyNamed("Motif", "here"), &FamilyNamed("motif", "here"));  // as its published checkpoints write it
  EXPECT_THAT(Call([] { FamilyNamed("gpt2", "here"); }),
              ThrowsMessage<Error>(HasSubstr("here: got 'gpt2', expected llama")));
}

}  // namespace
}  // namespace tare::families_table_test

namespace tare::records_test {
namespace {

TEST(FamilyRecords, AChangedTableKeepsTheOtherPlaces) {
  constexpr auto kChanged = Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).tensor = "other"; });
  for (size_t i = 0; i < kChanged.size(); ++i) {
    EXPECT_EQ(kChanged[i].weight, kLlamaLinear[i].weight);
    EXPECT_EQ(kChanged[i].tensor, kLlamaLinear[i].weight == Site::kOProjW ? "other" : kLlamaLinear[i].tensor);
  }
}

TEST(FamilyRecords, JoinedTablesKeepTheirOrder) {
  constexpr auto kJoined = Joined(kLlamaVectors, kLambdaVectors);
  ASSERT_EQ(kJoined.size(), 6);
  EXPECT_EQ(kJoined.front().tensor, kInputNorm);
  EXPECT_EQ(kJoined[1].tensor, kPostAttentionNorm);
  EXPECT_EQ(kJoined[2].tensor, LambdaNames().q1);
  EXPECT_EQ(kJoined.back().tensor, LambdaNames().k2);
}

TEST(FamilyRecords, AChangedFamilyKeepsTheRest) {
  constexpr Family kOther = Changed(kLlama, [](Family& f) { f.name = "other"; });
  EXPECT_EQ(kOther.name, "other");
  EXPECT_EQ(kLlama.name, "llama");
  EXPECT_EQ(kOther.forward, kLlama.forward);
}

}  // namespace
}  // namespace tare::records_test
