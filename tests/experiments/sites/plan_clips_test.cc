// SPDX-License-Identifier: Apache-2.0
#include "experiments/sites/plan_clips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/sites/simulated_quantizer.h"
#include "quant/base/error.h"
#include "quant/format/round.h"
#include "quant/statistics/statistics_file.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(DynamicClipTest, OptionsChooseTheClip) {
  std::vector<float> values(1000, 0.5f);
  values[17] = -100.0f;
  const auto clip = [&](const char* plan) { return DynamicClip(Plan::Parse(plan).rules()[0], values, 100.0f); };
  EXPECT_EQ(clip("layer_out=int4/token"), 100.0f);
  EXPECT_EQ(clip("layer_out=int4/token+p99.9"), 0.5f);
  EXPECT_LT(clip("layer_out=int8/token+mse"), 100.1f);
  EXPECT_GE(clip("layer_out=int8/token+mse"), 0.5f);
}

// Statistics in which layer 0's layer_out had 4 for its largest magnitude.
std::shared_ptr<StatisticsSet> Seen() {
  auto set = std::make_shared<StatisticsSet>();
  set->job["weights_sha256"] = "abc";
  set->units = {1};
  SiteStatistics& statistics = set->sites[{Site::kLayerOut, 0, -1, 0}];
  const std::vector<float> row = {1.0f, -4.0f, 2.0f};
  OutlierAccumulator accumulator;
  accumulator.Add(row, {});
  accumulator.FlushInto(statistics.outliers);
  return set;
}

TEST(StaticClipsTest, AValueAboveTheClipBecomesTheLargestCode) {
  const ModelConfig config{.family = "llama", .layers = 2, .heads = 1, .kv_heads = 1};
  SimulatedQuantizer quantizer(Plan::Parse("layer_out=int8/tensor+static"), config, FromStatistics(Seen()));
  EXPECT_FALSE(quantizer.SpansRows());
  EXPECT_FALSE(quantizer.NeedsSurvey(Site::kLayerOut, 0));
  std::vector<float> values = {100.0f, -1.0f, 0.013f};
  SiteBlock block{
      .site = Site::kLayerOut, .layer = 0, .rows = 1, .first_columns = 3, .values = values.data(), .stride = 3};
  quantizer.BeginBatch(1);
  quantizer.Visit(block, 0);
  const float scale = 4.0f / 127;
  EXPECT_EQ(values[0], 127 * scale);
  EXPECT_EQ(values[1], -32 * scale);  // 31.75
  EXPECT_EQ(values[2], 0.0f);         // 0.41
  block.layer = 1;
  EXPECT_THAT([&] { quantizer.Visit(block, 0); }, ThrowsMessage<Error>(HasSubstr("layer_out in layer 1")));
  values[1] = NAN;
  block.layer = 0;
  EXPECT_THAT([&] { quantizer.Visit(block, 0); }, ThrowsMessage<Error>(HasSubstr("NaN or infinity")));
}

TEST(StaticClipsTest, WithoutStatisticsARuleIsRefused) {
  const ModelConfig config{.family = "llama", .layers = 2, .heads = 1, .kv_heads = 1};
  EXPECT_THAT([&] { SimulatedQuantizer(Plan::Parse("layer_out=int8/tensor+static"), config); },
              ThrowsMessage<Error>(HasSubstr("try --stats")));
}

TEST(ReadStatisticsOfTest, OtherModelsStatisticsAreRefusedWithBothHashes) {
  const TemporaryFolder folder;
  WriteStatistics(*Seen(), folder / "s.h5");
  EXPECT_EQ(ReadStatisticsOf(folder / "s.h5", "abc")->sites.size(), 1u);
  EXPECT_THAT([&] { ReadStatisticsOf(folder / "s.h5", "def"); },
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr("abc"), HasSubstr("def"))));
}

}  // namespace
}  // namespace tare
