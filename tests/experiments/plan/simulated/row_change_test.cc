// SPDX-License-Identifier: Apache-2.0
// What each option does to a row, and that undoing it leaves no trace.
#include "experiments/plan/simulated/row_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quant/base/error.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"
#include "tests/support/simulated_plan.h"

namespace tare::row_change_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<float> Row(const SiteBlock& block, int64_t r) { return {block.Row(r).begin(), block.Row(r).end()}; }

// Queries first_row, first_row + 1 of a causal block.
SiteBlock Logits(std::vector<float>& values, int64_t first_row, int64_t stride) {
  return {.site = Site::kAttnLogits,
          .first_row = first_row,
          .rows = 2,
          .first_columns = first_row + 1,
          .column_step = 1,
          .values = values.data(),
          .stride = stride};
}

TEST(RowChangeTest, NothingWithoutOptions) {
  std::vector<float> values(8, 1.0f);
  EXPECT_FALSE(RowChange({.smooth = true}, Logits(values, 0, 4)).Any());
}

TEST(RowChangeTest, MaxShiftPutsTheLargestAtZero) {
  std::vector<float> values = {3, -1, 9, 9, 2, 5, 4, 9};
  const SiteBlock block = Logits(values, 1, 4);
  RowChange change({.max_shift = true}, block);
  for (int64_t r = 0; r < 2; ++r) change.Make(r, block.Row(r));
  EXPECT_THAT(Row(block, 0), ElementsAre(0, -4));
  EXPECT_THAT(Row(block, 1), ElementsAre(-3, 0, -1));
  for (int64_t r = 0; r < 2; ++r) change.Undo(r, block.Row(r));
  EXPECT_THAT(values, ElementsAre(3, -1, 9, 9, 2, 5, 4, 9));  // what the mask hides too
}

TEST(RowChangeTest, KeptColumnsAreTheFirstKeysOfAnyWindow) {
  std::vector<float> values = {8, 1, 2, 3, 8, 1, 2, 3};
  SiteBlock block = Logits(values, 2, 4);
  RowChange change({.keep = 2}, block);
  change.Make(0, block.Row(0));
  EXPECT_THAT(Row(block, 0), ElementsAre(0, 0, 2));
  for (float& x : block.Row(0)) x *= 10;  // as rounding would change them
  change.Undo(0, block.Row(0));
  EXPECT_THAT(Row(block, 0), ElementsAre(8, 1, 20));
  block.window = 2;  // of row 1: keys 2 and 3
  RowChange windowed({.keep = 3}, block);
  windowed.Make(1, block.Row(1));
  EXPECT_THAT(Row(block, 1), ElementsAre(0, 3));
  windowed.Undo(1, block.Row(1));
  EXPECT_THAT(Row(block, 1), ElementsAre(2, 3));
}

TEST(RowChangeTest, KeptTokensOfKeysAndValues) {
  for (const Site site : {Site::kK, Site::kV}) {
    std::vector<float> values = {1, 2, 3, 4};
    const SiteBlock block{
        .site = site, .first_row = 3, .rows = 2, .first_columns = 2, .values = values.data(), .stride = 2};
    RowChange change({.keep = 4}, block);
    for (int64_t r = 0; r < 2; ++r) change.Make(r, block.Row(r));
    EXPECT_THAT(values, ElementsAre(0, 0, 3, 4));
    for (int64_t r = 0; r < 2; ++r) change.Undo(r, block.Row(r));
    EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  }
}

// An outlier is spread over all channels; products of queries and keys stay what they are.
TEST(RowChangeTest, HadamardSpreadsAndKeepsProducts) {
  std::vector<float> q = RandomNormal(32, 1), k = RandomNormal(32, 2);
  k[5] = 100;
  const std::vector<float> before = k;
  double product = 0, turned = 0;
  for (size_t i = 0; i < 32; ++i) product += double{q[i]} * k[i];
  const SiteBlock queries{.site = Site::kQ, .rows = 1, .first_columns = 32, .values = q.data(), .stride = 32},
      keys{.site = Site::kK, .rows = 1, .first_columns = 32, .values = k.data(), .stride = 32};
  RowChange of_q({.hadamard = RotatedRuns{}}, queries), of_k({.hadamard = RotatedRuns{}}, keys);
  of_q.Make(0, queries.Row(0));
  of_k.Make(0, keys.Row(0));
  for (size_t i = 0; i < 32; ++i) turned += double{q[i]} * k[i];
  EXPECT_NEAR(turned, product, 1e-4 * std::abs(product));
  for (const float x : k) EXPECT_LT(std::abs(x), 30);
  of_k.Undo(0, keys.Row(0));
  for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(k[i], before[i], 1e-4);
  const SiteBlock odd{.site = Site::kQ, .rows = 1, .first_columns = 3, .values = q.data(), .stride = 3};
  EXPECT_THAT(Call([&] { RowChange({.hadamard = RotatedRuns{}}, odd); }),
              ThrowsMessage<Error>(HasSubstr("hadamard: got 3 channels")));
}

ModelConfig OneLayer() { return {.family = "llama", .layers = 1, .heads = 1, .kv_heads = 1}; }

// Rows of four, of the only map.
void QuantizeLogits(const char* plan, std::vector<float>& values) {
  SimulatedPlan quantizer(plan, OneLayer());
  const SiteBlock block{.site = Site::kAttnLogits,
                        .layer = 0,
                        .head = 0,
                        .map = 1,
                        .rows = std::ssize(values) / 4,
                        .first_columns = 4,
                        .values = values.data(),
                        .stride = 4};
  quantizer.BeginBatch(1);
  if (quantizer.NeedsSurvey(Site::kAttnLogits, 0)) quantizer.Survey(block, 0);
  quantizer.Visit(block, 0);
}

// A sink of 100 at the first key: kept, it is exact and the others have a scale of their own, in a row and in a tensor.
TEST(RowChangeInPlans, KeptKeysAreExactAndOutOfTheScale) {
  for (const char* plan : {"attn_logits=int4/row+keep1", "attn_logits=int4/tensor+keep1"}) {
    std::vector<float> values = {100, 1, -7, 3.4f, 100, -7, 2.6f, 0};
    QuantizeLogits(plan, values);
    const float expected[] = {100, 1, -7, 3, 100, -7, 3, 0};
    for (int i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(values[i], expected[i]) << plan << " " << i;
  }
}

// -14 .. 0 in steps of 2: the row's largest becomes 0, whatever it was.
TEST(RowChangeInPlans, LogitsAreRoundedBelowTheRowsLargest) {
  for (const char* plan : {"attn_logits=int4/row+maxshift", "attn_logits=int4/tensor+maxshift"}) {
    std::vector<float> values = {1001, 1000.1f, 994, 987};
    QuantizeLogits(plan, values);
    const float expected[] = {1001, 1001, 993, 987};  // 0, 0, -4 (of -3.5, to even), -7 times 2
    for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(values[i], expected[i]) << plan << " " << i;
  }
}

// 0.1 - 1000.3 + 1000.3 is not 0.1 in f32.
TEST(RowChangeInPlans, KeptLogitsAreExactBesideAShift) {
  for (const char* plan : {"attn_logits=int4/row+maxshift+keep2", "attn_logits=int4/tensor+maxshift+keep2"}) {
    std::vector<float> values = {0.1f, 1000.3f, 994.3f, 986.3f};
    QuantizeLogits(plan, values);
    EXPECT_EQ(values[0], 0.1f) << plan;
    EXPECT_EQ(values[1], 1000.3f) << plan;
    EXPECT_NEAR(values[2], 994.3f, 1e-3f) << plan;
    EXPECT_NEAR(values[3], 986.3f, 1e-3f) << plan;
  }
}

TEST(RowChangeInPlans, RotatedValuesAreRoundedAndTurnedBack) {
  std::vector<float> values(2 * 8);
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (float& x : values) x = normal(random);
  std::vector<float> expected = values;
  const Hadamard rotation(8, 1);
  for (int r = 0; r < 2; ++r) {
    float* const row = expected.data() + 8 * r;
    rotation.Rotate(row, row);
    float absmax = 0;
    for (int i = 0; i < 8; ++i) absmax = std::max(absmax, std::abs(row[i]));
    const Scale scale = ScaleFor(absmax, Format::kInt4);
    for (int i = 0; i < 8; ++i) row[i] = std::nearbyint(row[i] * scale.inv) * scale.scale;
    rotation.RotateBack(row, row);
  }
  SimulatedPlan quantizer("k=int4/token+hadamard", OneLayer());
  quantizer.Visit(
      {.site = Site::kK, .layer = 0, .head = 0, .rows = 2, .first_columns = 8, .values = values.data(), .stride = 8},
      0);
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace tare::row_change_test
