// SPDX-License-Identifier: Apache-2.0
// Bisection along a frontier whose measured losses differ from the predicted ones.
#include "experiments/studies/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/sweep_cells.h"

namespace tare::search_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Search Of(size_t steps, double within) {
  Search search;
  search.within = within;
  search.frontier.resize(steps + 1);
  return search;
}

// Runs that lose twice their step.
VerifiedPoint Twice(size_t step) {
  VerifiedPoint point{.step = step, .plan = "", .cells = {}, .changes = {}};
  point.changes.emplace_back().value = 2.0 * static_cast<double>(step);
  return point;
}

TEST(SearchTest, FindsTheCheapestWithinTheLoss) {
  for (size_t steps = 1; steps < 40; ++steps) {
    for (size_t answer = 1; answer <= steps; ++answer) {
      Search search = Of(steps, 2.0 * static_cast<double>(answer) + 1);
      Verify(search, Twice);
      ASSERT_EQ(search.Answer().step, answer) << steps;
      ASSERT_LE(search.verified.size(), 7u);
      ASSERT_TRUE(std::ranges::is_sorted(search.verified, {}, &VerifiedPoint::step));
      // The next one is known to be beyond.
      if (answer < steps) {
        ASSERT_EQ(search.verified[search.answer + 1].step, answer + 1);
      }
    }
  }
}

TEST(SearchTest, RefusesALossThatNothingMeets) {
  Search search = Of(9, 1.9);
  EXPECT_THAT(
      Call([&] { Verify(search, Twice); }),
      ThrowsMessage<Error>(HasSubstr("got 1.9, expected a loss that some plan meets: the best measured plan loses 2")));
}

TEST(SearchTest, FewerBitsWithoutLossAreAnAnswer) {
  for (const size_t steps : {0u, 9u}) {
    Search search = Of(steps, 1.9);
    search.frontier.front().levels = {0, 1};
    Verify(search, Twice);
    EXPECT_EQ(search.Answer().step, 0u) << steps;
    EXPECT_EQ(search.verified.front().Loss(), 0) << steps;
  }
}

TEST(SearchTest, ChangesAreFromF32TaskByTask) {
  const std::vector<SweepCell> cells = {Choice("f32", "1111110000", "1111110000"),
                                        Choice("q=int4/token", "1111000000", "1111110000"), Perplexity("m", "f32", 20),
                                        Perplexity("m", "q=int4/token", 23)};
  const VerifiedPoint point = PointOf(3, "q=int4/token", cells);
  EXPECT_EQ(point.step, 3u);
  ASSERT_EQ(point.changes.size(), 2u);
  EXPECT_NEAR(point.changes[0].value, -0.2, 1e-12);
  EXPECT_NEAR(point.changes[1].value, 3, 1e-12);
}

}  // namespace
}  // namespace tare::search_test
