// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/sequences.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::progress_test {
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
  ProgressClock clock("eval", 100);
  EXPECT_EQ(clock.Line(500, 2000, "tokens", 110, 80), "eval: 500 of 2000 tokens, 50 tokens/s, 30 s left");
  EXPECT_EQ(clock.Line(520, 2000, "tokens", 310, 80), "eval: 520 of 2000 tokens, 2.5 tokens/s, 10 min left");
  EXPECT_EQ(clock.Line(2000, 2000, "tokens", 310, 80), "eval: 2000 of 2000 tokens, 9.5 tokens/s, 0 s left");
}

TEST(ProgressClock, SizesAreReadable) {
  ProgressClock clock("verify", 0);
  EXPECT_EQ(clock.Line(5'000'000'000, 10'000'000'000, "bytes", 10, 80),
            "verify: 5.00 GB of 10.0 GB, 500 MB/s, 10 s left");
}

// A layer in 12 s is not "0 per second".
TEST(ProgressClock, SlowUnitsShowSecondsEach) {
  ProgressClock clock("quantize", 0);
  EXPECT_EQ(clock.Line(1, 4, "layers", 12, 80), "quantize: 1 of 4 layers, 12.0 s each, 36 s left");
  EXPECT_EQ(clock.Line(2, 4, "layers", 7200, 80), "quantize: 2 of 4 layers, 60 min each, 2.0 h left");
}

// What came before a count began again says nothing of its rate.
TEST(ProgressClock, EachStepHasItsOwnRate) {
  ProgressClock clock("quantize", 0);
  clock.Line(39, 39, "tensors", 100, 80);
  EXPECT_EQ(clock.Line(1, 4, "layers", 103, 80), "quantize: 1 of 4 layers, 3.0 s each, 9 s left");
  clock.Line(4, 4, "layers", 112, 80);
  EXPECT_EQ(clock.Line(2, 4, "layers", 113, 80), "quantize: 2 of 4 layers, 2.0 layers/s, 1 s left");
}

// Half of the first of three runs in 5 s leaves 25 s; one and a half of them in 20 s leave 20 s.
TEST(ProgressClock, ShareAndTimeLeftAreOfAllRuns) {
  ProgressClock clock("", -90);  // models are read until 0
  clock.Begin("a", 2, 0);
  EXPECT_EQ(clock.Start(), "3 runs; a");
  EXPECT_EQ(clock.Line(0, 2, "items", 0, 80), "run 1 of 3, 0 % of all; a: 0 %");
  EXPECT_EQ(clock.Line(1, 2, "items", 5, 80), "run 1 of 3, 17 % of all, 25 s left; a: 50 %, 5.0 s each");
  clock.Begin("b", 1, 10);
  EXPECT_EQ(clock.Start(), "");
  EXPECT_EQ(clock.Line(3, 4, "layers of weights", 10, 80), "run 2 of 3, 33 % of all, 20 s left; b: 75 %");
  EXPECT_EQ(clock.Line(1, 2, "items", 20, 80), "run 2 of 3, 50 % of all, 20 s left; b: 50 %, 10.0 s each");
  clock.Begin("c", 0, 30);
  EXPECT_EQ(clock.Line(5, 5, "items", 80, 80), "run 3 of 3, 100 % of all, 0 s left; c: 100 %, 10.0 s each");
}

TEST(ProgressClock, AnOnlyRunIsNotCounted) {
  ProgressClock clock("", 0);
  clock.Begin("a", 0, 0);
  EXPECT_EQ(clock.Start(), "");
  EXPECT_EQ(clock.Line(1, 4, "items", 1, 80), "a: 1 of 4 items, 1.0 items/s, 3 s left");
}

TEST(ProgressClock, TheNameIsCutToTheColumns) {
  ProgressClock clock("a-model-with-a-long-name choice:needles-4", 0);
  EXPECT_EQ(clock.Line(1, 2, "items", 1, 60), "a-model-with-a-long-n..: 1 of 2 items, 1.0 items/s, 1 s left");
  EXPECT_EQ(clock.Line(1, 2, "items", 1, 8), "..: 1 of");
}

}  // namespace

// A window that takes minutes: its layers, each a share of its tokens, and then all of them.
TEST(Progress, OfALongWindowIsByLayers) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  checkpoint.config["max_position_embeddings"] = 8192;
  checkpoint.Write(folder / "m");
  Model model(folder / "m");
  const int64_t layers = model.config().layers;
  for (const int64_t tokens : {4096, 4095}) {
    std::vector<int64_t> expected, reported;
    for (int64_t layer = 1; tokens == 4096 && layer < layers; ++layer) expected.push_back(tokens * layer / layers);
    expected.push_back(tokens);
    const std::vector<ScoredSequence> window{{.tokens = std::vector<int32_t>(static_cast<size_t>(tokens), 7)}};
    ForwardAll(
        model, {}, window,
        [&](int64_t done, int64_t total, const char* unit) {
          EXPECT_STREQ(unit, "tokens");
          EXPECT_EQ(total, tokens);
          reported.push_back(done);
        },
        [](const TokenBatch&) {});
    EXPECT_EQ(reported, expected);
  }
}

}  // namespace tare::progress_test
