// SPDX-License-Identifier: Apache-2.0
#include "quant/base/nearest.h"

#include <gtest/gtest.h>

namespace tare::nearest_test {
namespace {

TEST(NearestTest, DistanceCountsLetters) {
  EXPECT_EQ(Distance("taks", "tasks"), 1u);
  EXPECT_EQ(Distance("", "abc"), 3u);
  EXPECT_EQ(Distance("kitten", "sitting"), 3u);
  EXPECT_EQ(Distance(std::string(100'000'000, 'a'), std::string(300, 'b')), 200u);  // of any length, at once
}

TEST(NearestTest, ThreeAtMostNearestFirst) {
  EXPECT_EQ(NearestText("a", {}), "");
  EXPECT_EQ(NearestText("a", {"b"}), "; the nearest is 'b'");
  EXPECT_EQ(NearestText("wq", {"norm", "wk", "wqs", "wq_bias"}), "; the nearest are 'wk', 'wqs', 'norm'");
}

TEST(NearestTest, OneWithinHalfOfTheLetters) {
  const std::vector<std::string> known{"logits", "attn_logits", "q"};
  EXPECT_EQ(*NearestOf("atn_logit", known), "attn_logits");
  EXPECT_EQ(*NearestOf("logits", known), "logits");
  EXPECT_EQ(*NearestOf("logits", {"limits", "attn_logits"}), "attn_logits");  // a part of it, rather than two letters
  EXPECT_EQ(NearestOf("tn", known), nullptr);                                 // of two letters, not
  EXPECT_EQ(NearestOf("kv", known), nullptr);
  EXPECT_EQ(NearestOf("", known), nullptr);
  EXPECT_EQ(NearestOf("q", {}), nullptr);
  EXPECT_EQ(NearestOf(std::string(100'000'000, 'a'), known), nullptr);
}

}  // namespace
}  // namespace tare::nearest_test
