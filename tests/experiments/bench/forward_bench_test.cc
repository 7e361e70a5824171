// SPDX-License-Identifier: Apache-2.0
// The count of operations, by hand; and that a timing covers the whole pass. No test checks speed, because machines
// differ.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include "experiments/bench/forward_bench.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string_view>

#include "experiments/model/random_checkpoint.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"

namespace tare::forward_bench_test {
namespace {

TEST(ForwardBenchTest, FlopCountsProductsAndUnmaskedPairs) {
  ModelConfig config{.family = "llama",
                     .vocabulary = 10,
                     .hidden = 8,
                     .ffn = 16,
                     .layers = 3,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_dim = 4};
  // A layer: q and o 8 x 8, k and v 8 x 4, three of 8 x 16: 576 values; the head: 80.
  // Twice that for each of 10 rows: 20 x (3 x 576 + 80) = 36,160.
  // Pairs: 2 sequences x 15, 3 layers, 2 heads; each 2 x 4 for the score and 2 x 4 for the sum: 180 x 16 = 2,880.
  EXPECT_EQ(ForwardFlop(config, 2, 5), 36160 + 2880);
  // Under a window of 2 a layer has 9 pairs, not 15.
  config.windows = {0, 2, 0};
  EXPECT_EQ(ForwardFlop(config, 2, 5), 36160 + 2 * (15 + 9 + 15) * 2 * 16);
  config.windows.clear();
  // Each map of a differential head multiplies V of both: 180 x (8 + 16).
  config.family = "diffllama";
  EXPECT_EQ(ForwardFlop(config, 2, 5), 36160 + 4320);
}

class Counter : public SiteVisitor {
 public:
  bool Wants(Site site, std::optional<int>) const override { return site == Site::kFinalNorm; }
  void BeginBatch(int64_t slots) override {
    ++passes;
    EXPECT_EQ(slots, 3);
  }
  void Visit(const SiteBlock& block, int) override { rows += block.rows; }
  int passes = 0;
  std::atomic<int64_t> rows = 0;
};

TEST(ForwardBenchTest, TimesWholePasses) {
  Model model(GoldenFolder("llama-mha"));
  Counter counter;
  SiteVisitor* const visitors[] = {&counter};
  const ForwardTiming timing = TimeForward(model, {.batch = 3, .tokens = 70, .repetitions = 2}, visitors);
  EXPECT_EQ(counter.passes, 3);  // the first is not timed
  EXPECT_EQ(counter.rows, 3 * 3 * 70);
  EXPECT_GT(timing.seconds, 0);
  EXPECT_GE(timing.spread, 0);
  EXPECT_DOUBLE_EQ(timing.tokens_per_second, 210 / timing.seconds);
  EXPECT_DOUBLE_EQ(timing.gflops, ForwardFlop(model.config(), 3, 70) / timing.seconds * 1e-9);
  EXPECT_GT(timing.matmul_gflops, 0);
  EXPECT_DOUBLE_EQ(timing.share, timing.gflops / timing.matmul_gflops);
}

ModelConfig Tower(const char* family) {
  return {.family = family,
          .vocabulary = 50,
          .hidden = 32,
          .ffn = 48,
          .layers = 2,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 8,
          .norm_eps = 1e-5f,
          .max_positions = 12,
          .projection = 20};
}

TEST(ForwardBenchTest, TowersOfClipAreTimed) {
  for (const char* family : {"clip_text_model", "clip_vision_model", "diffclip_text_model", "diffclip_vision_model"}) {
    const TemporaryFolder folder;
    ModelConfig config = Tower(family);
    if (std::string_view(family).contains("vision")) {
      config.image_size = 24;
      config.patch_size = 8;
    }
    WriteRandomCheckpoint(folder / "m", config, WeightType::kF32, 1);
    Model model(folder / "m");
    if (config.SeesImages()) ShowRandomImages(model, folder.path(), 3);
    Counter counter;
    SiteVisitor* const visitors[] = {&counter};
    TimeForward(model, {.batch = 3, .tokens = 10, .repetitions = 1}, visitors);
    EXPECT_EQ(counter.rows, 2 * 3 * 10) << family;
  }
}

TEST(ForwardBenchTest, FlopOfAVisionTowerHasPatchesAndNoMask) {
  ModelConfig config = Tower("clip_vision_model");
  config.image_size = 24;
  config.patch_size = 8;
  // A layer: four of 32 x 32 and, without a gate, two of 32 x 48: 7,168 values; the head 32 x 20, patches 32 x 192.
  // 20 rows; 2 images x 100 pairs, 2 layers, 4 heads, each 2 x 8 for the score and for the sum.
  EXPECT_EQ(ForwardFlop(config, 2, 10), 2 * 20 * (2 * 7168 + 640 + 6144) + 200 * 2 * 4 * 32);
}

}  // namespace
}  // namespace tare::forward_bench_test
