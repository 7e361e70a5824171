// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/families/records.h"

#include <gtest/gtest.h>

#include "experiments/model/families/differential.h"
#include "experiments/model/families/llama.h"

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
  EXPECT_EQ(kJoined[2].tensor, kLambdaQ1);
  EXPECT_EQ(kJoined.back().tensor, kLambdaK2);
}

TEST(FamilyRecords, AChangedFamilyKeepsTheRest) {
  constexpr Family kOther = Changed(kLlama, [](Family& f) { f.name = "other"; });
  EXPECT_EQ(kOther.name, "other");
  EXPECT_EQ(kLlama.name, "llama");
  EXPECT_EQ(kOther.forward, kLlama.forward);
}

}  // namespace
}  // namespace tare::records_test
