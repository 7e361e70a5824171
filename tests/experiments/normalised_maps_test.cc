// SPDX-License-Identifier: Apache-2.0
// Rules of `probs` divide each row by the sum that rounding left, and with +unnormalized do not: worked by hand.
#include <gtest/gtest.h>

#include "tests/support/simulated_plan.h"

namespace tare::normalised_maps_test {
namespace {

// One row of a map under a plan.
std::vector<float> RowOfMap(const char* plan, std::vector<float> row, const float* sink_share = nullptr) {
  SimulatedPlan quantizer(plan, ModelConfig{.family = "llama", .layers = 1, .heads = 1, .kv_heads = 1});
  const int64_t keys = std::ssize(row);
  quantizer.Visit({.site = Site::kProbs,
                   .layer = 0,
                   .head = 0,
                   .map = 1,
                   .rows = 1,
                   .first_columns = keys,
                   .values = row.data(),
                   .stride = keys,
                   .sink_shares = sink_share},
                  0);
  return row;
}

void ExpectRow(const char* plan, const std::vector<float>& row, const std::vector<double>& want) {
  const std::vector<float> got = RowOfMap(plan, row);
  // The largest probability, the scale, its product with a code, the inverse sum and the last product: five roundings.
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 5 * 0x1p-24 * want[i]) << plan << ", key " << i;
}

// Worked by hand. A unit is the row's scale: of u4 0.6 / 15; of MX 2^(floor(log2 0.6) - p), p = 2 in E2M1, 8 in E4M3.
TEST(NormalisedMaps, AreDividedByTheSumOfTheirCodes) {
  const std::vector<float> row{0.6f, 0.29f, 0.056f, 0.054f};
  // 15, 7.25, 1.4, 1.35 units of 0.04.
  ExpectRow("probs=u4/row", row, {15. / 24, 7. / 24, 1. / 24, 1. / 24});
  ExpectRow("probs=u4/row+unnormalized", row, {15 * 0.04, 7 * 0.04, 0.04, 0.04});
  // Two scales: 15 and 7 units of 0.04; 15 and 14.46 of 0.056 / 15.
  const double unit = 0.056 / 15, sum = 22 * 0.04 + 29 * unit;
  ExpectRow("probs=u4/block2", row, {0.6 / sum, 0.28 / sum, 15 * unit / sum, 14 * unit / sum});
  ExpectRow("probs=u4/block2+unnormalized", row, {0.6, 0.28, 15 * unit, 14 * unit});
  // 4.8, 2.32, 0.448 and 0.432 units of 1/8, of 0, 0.5, 1, 1.5, 2, 3, 4, 6.
  ExpectRow("probs=mxfp4", row, {4. / 7, 2. / 7, 0.5 / 7, 0.5 / 7});
  ExpectRow("probs=mxfp4+unnormalized", row, {4. / 8, 2. / 8, 0.5 / 8, 0.5 / 8});
  // 307.2, 148.48, 28.672 and 27.648 units of 1/512, in steps of 32, 16, 2 and 2.
  ExpectRow("probs=mxfp8e4m3", row, {320. / 520, 144. / 520, 28. / 520, 28. / 520});
  ExpectRow("probs=mxfp8e4m3+unnormalized", row, {320. / 512, 144. / 512, 28. / 512, 28. / 512});
  // The first key is exact; 15, 2.9 and 1.45 units of 0.31 / 15. The sum counts it, too.
  const std::vector<float> kept{0.6f, 0.31f, 0.06f, 0.03f};
  const double rest = 0.31 / 15, all = 0.6 + 19 * rest;
  ExpectRow("probs=u4/row+keep1", kept, {0.6 / all, 0.31 / all, 3 * rest / all, rest / all});
  ExpectRow("probs=u4/row+keep1+unnormalized", kept, {0.6, 0.31, 3 * rest, rest});
}

// A sink of share 0.2: the same codes, and 0.2 more in the sum.
TEST(NormalisedMaps, ASinksShareIsInTheSum) {
  const float share = 0.2f;
  const std::vector<float> row{0.48f, 0.232f, 0.0448f, 0.0432f};
  const std::vector<float> got = RowOfMap("probs=u4/row", row, &share);
  const double unit = 0.48 / 15, sum = 24 * unit + 0.2;
  double total = 0;
  for (const auto& [i, codes] : {std::pair{0, 15}, {1, 7}, {2, 1}, {3, 1}}) {
    EXPECT_NEAR(got[static_cast<size_t>(i)], codes * unit / sum, 6 * 0x1p-24);
    total += got[static_cast<size_t>(i)];
  }
  EXPECT_NEAR(total, 1 - 0.2 / sum, 1e-6);
  EXPECT_EQ(RowOfMap("probs=u4/row+unnormalized", row, &share), RowOfMap("probs=u4/row+unnormalized", row));
}

}  // namespace
}  // namespace tare::normalised_maps_test
