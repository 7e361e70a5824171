// SPDX-License-Identifier: Apache-2.0
// By hand on few tokens; contexts by powers of two.
#include "experiments/significance/token_divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/significance/mean_error.h"

namespace tare::token_divergence_test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ContextRanges, NothingBeforeAndNothingAtAll) {
  EXPECT_THAT(ByContext(std::vector<TokenDivergence>{{.context = 0}, {.context = 1}}), SizeIs(2));
  EXPECT_EQ(LastOfRange(0), 0);
  EXPECT_EQ(LastOfRange(1), 1);
  EXPECT_THAT(ByContext(std::vector<TokenDivergence>()), IsEmpty());
}

TEST(QuantileTest, InterpolatesBetweenNeighbours) {
  const double values[] = {1, 2, 4, 8, 16};
  EXPECT_EQ(Quantile(values, 0), 1);
  EXPECT_EQ(Quantile(values, 0.5), 4);
  EXPECT_EQ(Quantile(values, 1), 16);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.9), 8 + 0.6 * 8);
  const double one[] = {7};
  EXPECT_EQ(Quantile(one, 0.999), 7);
  const double two[] = {1, 3};
  EXPECT_EQ(Quantile(two, 0.5), 2);
}

TEST(DivergenceTest, ByHand) {
  // p of the token: 1/2, 1/4, 1/8, 1/2; q: 1/4, 1/4, 1/4, 1/2.
  const double ln2 = std::log(2);
  const TokenDivergence tokens[] = {
      {.kld = 0.4, .reference_loss = ln2, .loss = 2 * ln2, .same_top = true, .context = 1},
      {.kld = 0.1, .reference_loss = 2 * ln2, .loss = 2 * ln2, .same_top = true, .context = 2},
      {.kld = 0.2, .reference_loss = 3 * ln2, .loss = 2 * ln2, .same_top = false, .context = 3},
      {.kld = 0.1, .reference_loss = ln2, .loss = ln2, .same_top = true, .context = 4}};
  const Divergence d = DivergenceOf(tokens);
  EXPECT_DOUBLE_EQ(d.kld.mean, 0.2);
  EXPECT_FALSE(d.kld.error.has_value()) << "one window";
  EXPECT_DOUBLE_EQ(d.kld_median, 0.15);
  EXPECT_DOUBLE_EQ(d.kld_90, 0.2 + 0.7 * 0.2);
  EXPECT_DOUBLE_EQ(d.kld_95, 0.2 + 0.85 * 0.2);
  EXPECT_DOUBLE_EQ(d.kld_99, 0.2 + 0.97 * 0.2);
  EXPECT_DOUBLE_EQ(d.kld_999, 0.2 + 0.997 * 0.2);
  EXPECT_EQ(d.kld_largest, 0.4);
  EXPECT_EQ(d.same_top.mean, 0.75);
  EXPECT_NEAR(d.delta_p.mean, (-0.25 + 0 + 0.125 + 0) / 4, 1e-15);
  EXPECT_NEAR(d.delta_p_rms, std::sqrt((0.0625 + 0.015625) / 4), 1e-15);
  EXPECT_NEAR(d.log_ratio.mean, 0, 1e-15);
}

// 49 times 1/49 is less than 1, and more for other numbers.
TEST(DivergenceTest, AShareOfAllIsOne) {
  for (size_t n = 1; n < 3000; n += 7) {
    const Divergence d = DivergenceOf(std::vector<TokenDivergence>(n, {.same_top = true}));
    ASSERT_EQ(d.same_top.mean, 1) << n;
  }
}

// Windows of two tokens each: whether their tokens are alike does not matter, their sums do.
TEST(DivergenceTest, ErrorsAreOverWindows) {
  std::vector<TokenDivergence> tokens;
  std::vector<double> klds, ratios;
  for (size_t window = 0; window < 30; ++window) {
    const double kld = 0.1 * static_cast<double>(window * 7 % 11);
    tokens.push_back({.kld = kld + 0.05, .reference_loss = 1, .loss = 1 + kld, .same_top = true, .window = window});
    tokens.push_back({.kld = kld - 0.05, .reference_loss = 1, .loss = 1 + 2 * kld, .window = window});
    klds.push_back(kld), ratios.push_back(1.5 * kld);
  }
  const Divergence d = DivergenceOf(tokens);
  EXPECT_NEAR(d.kld.error.value(), ErrorOfMean(klds, Units::kOfText)->error, 1e-14);
  EXPECT_NEAR(d.log_ratio.error.value(), ErrorOfMean(ratios, Units::kOfText)->error, 1e-14);
  EXPECT_EQ(d.same_top.mean, 0.5);
  EXPECT_EQ(d.same_top.error, 0) << "one of two in every window";
  EXPECT_EQ(DivergenceOf(ByContext(tokens).at(0)).kld.error, d.kld.error);
}

TEST(DivergenceTest, ContextsByPowersOfTwo) {
  std::vector<TokenDivergence> tokens;
  for (const int64_t context : {5, 1, 4, 3, 8, 7})
    tokens.push_back({.kld = static_cast<double>(context), .reference_loss = 1, .loss = 1.5, .context = context});
  const auto all = ByContext(tokens);
  ASSERT_EQ(all.size(), 4u);
  const int64_t first[] = {1, 2, 4, 8}, last[] = {1, 3, 7, 15};
  const std::vector<double> klds[] = {{1}, {3}, {5, 4, 7}, {8}};
  for (size_t i = 0; const auto& [of_range, some] : all) {
    EXPECT_EQ(of_range, first[i]);
    EXPECT_EQ(LastOfRange(of_range), last[i]);
    EXPECT_TRUE(std::ranges::equal(some, klds[i], {}, &TokenDivergence::kld)) << "in their order";
    EXPECT_DOUBLE_EQ(DivergenceOf(some).log_ratio.mean, 0.5);
    ++i;
  }
}

}  // namespace

}  // namespace tare::token_divergence_test
