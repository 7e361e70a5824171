// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace tare {
namespace {

TEST(Progress, IsReported) {
  std::string heard;
  Report([&](int64_t done, int64_t total,
             const char* unit) { heard = std::to_string(done) + " of " + std::to_string(total) + " " + unit; },
         3, 8, "items");
  EXPECT_EQ(heard, "3 of 8 items");
}

TEST(Progress, MayBeEmpty) { EXPECT_NO_THROW(Report({}, 3, 8, "items")); }

TEST(ProgressClock, SaysRateAndTimeLeft) {
  ProgressClock clock(100);
  clock.Begin("eval", 0, 1, 100);
  EXPECT_EQ(clock.Line(500, 2000, "tokens", 110, 80), "eval: 500 of 2000 tokens, 50 per second, 30 s left");
  EXPECT_EQ(clock.Line(520, 2000, "tokens", 310, 80), "eval: 520 of 2000 tokens, 2.5 per second, 10 min left");
  EXPECT_EQ(clock.Line(2000, 2000, "tokens", 310, 80), "eval: 2000 of 2000 tokens, 9.5 per second, 0 s left");
}

TEST(ProgressClock, SizesAreReadable) {
  ProgressClock clock(0);
  clock.Begin("verify", 0, 1, 0);
  EXPECT_EQ(clock.Line(5'000'000'000, 10'000'000'000, "bytes", 10, 80),
            "verify: 5.00 GB of 10.0 GB, 500 MB per second, 10 s left");
}

// A layer in 12 s is not "0 per second".
TEST(ProgressClock, SlowUnitsShowSecondsEach) {
  ProgressClock clock(0);
  clock.Begin("quantize", 0, 1, 0);
  EXPECT_EQ(clock.Line(1, 4, "layers", 12, 80), "quantize: 1 of 4 layers, 12.0 s each, 36 s left");
  EXPECT_EQ(clock.Line(2, 4, "layers", 7200, 80), "quantize: 2 of 4 layers, 60 min each, 2.0 h left");
}

// What came before a count began again says nothing of its rate.
TEST(ProgressClock, EachStepHasItsOwnRate) {
  ProgressClock clock(0);
  clock.Begin("quantize", 0, 1, 0);
  clock.Line(39, 39, "tensors", 100, 80);
  EXPECT_EQ(clock.Line(1, 4, "layers", 103, 80), "quantize: 1 of 4 layers, 3.0 s each, 9 s left");
  clock.Line(4, 4, "layers", 112, 80);
  EXPECT_EQ(clock.Line(2, 4, "layers", 113, 80), "quantize: 2 of 4 layers, 2.0 per second, 1 s left");
}

// Two cells of four in 20 s and half of the third in 5: 15 s more for the rest.
TEST(ProgressClock, TimeLeftCoversAllParts) {
  ProgressClock clock(0);
  clock.Begin("a", 0, 4, 0);
  EXPECT_EQ(clock.Line(1, 2, "items", 5, 80), "a: 50 %, 5.0 s each, 5 s left (35 s of all)");
  clock.Begin("c", 2, 4, 20);
  EXPECT_EQ(clock.Line(1, 2, "items", 25, 80), "c: 50 %, 5.0 s each, 5 s left (15 s of all)");
}

TEST(ProgressClock, TheNameIsCutToTheColumns) {
  ProgressClock clock(0);
  clock.Begin("a-model-with-a-long-name choice:needles-4", 0, 1, 0);
  EXPECT_EQ(clock.Line(1, 2, "items", 1, 60), "a-model-with-a-lon..: 1 of 2 items, 1.0 per second, 1 s left");
  EXPECT_EQ(clock.Line(1, 2, "items", 1, 8), "..: 1 of");
}

}  // namespace

}  // namespace tare
