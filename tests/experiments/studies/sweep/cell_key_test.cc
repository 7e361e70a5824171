// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/cell_key.h"

#include <gtest/gtest.h>

namespace tare::cell_key_test {
namespace {

TEST(CellKey, IsTextInTheOrderOfModelPlanTask) {
  EXPECT_EQ(CellText({{"task", "t"}, {"model", "m"}, {"plan", "f32"}}), "m f32 t");
}

TEST(CellKey, IdentityHasNoSentence) {
  const Json bare{{"model", "m"}, {"weights", "1"}, {"plan", "f32"}, {"task", "t"}, {"input", "x"}, {"math", "f32"}};
  const auto with = [&](const Json& convention) {
    Json key = bare;
    key["convention"] = convention;
    return key;
  };
  const Json key = with("each token is scored once");
  EXPECT_EQ(IdentityOf(key), with("tare"));
  const Json of_other = with({{"name", "llama.cpp"}, {"bos", "before the text"}});
  EXPECT_EQ(IdentityOf(of_other), with("llama.cpp"));
  Json reworded = key;
  reworded["convention"] = "scores each token once";
  EXPECT_EQ(Clash(key, reworded), "");
  EXPECT_EQ(Clash(key, of_other), "convention");
  EXPECT_EQ(IdentityOf(bare), bare);
}

TEST(CellKey, ClashNamesTheSettingThatDiffers) {
  const Json a{{"model", "m"}, {"weights", "1"}, {"plan", "f32"}, {"task", "t"}, {"input", "x"}, {"math", "f32"}};
  const auto with = [&](const char* key, const char* value) {
    Json other = a;
    other[key] = value;
    return other;
  };
  EXPECT_EQ(Clash(a, a), "");
  EXPECT_EQ(Clash(a, with("plan", "q=int4/token")), "");
  EXPECT_EQ(Clash(a, with("math", "bf16")), "math");
  EXPECT_EQ(Clash(a, with("weights", "2")), "weights");
  EXPECT_EQ(Clash(a, with("input", "y")), "input");
  Json other_model = with("model", "n");
  other_model["weights"] = "2";
  EXPECT_EQ(Clash(a, other_model), "");
  Json of_part = a;
  of_part["from"] = "start";
  EXPECT_EQ(Clash(a, of_part), "part of the input");
  // Older cells have other windows of a long text.
  EXPECT_EQ(Clash(a, with("windows_begin", "lines")), "windows of a long text");
  Json of_other_task = with("windows_begin", "lines");
  of_other_task["task"] = "perplexity:other";
  EXPECT_EQ(Clash(a, of_other_task), "");
}

}  // namespace
}  // namespace tare::cell_key_test
