// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/model_sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/format/round.h"
#include "quant/statistics/statistics_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/simulated_plan.h"

namespace tare::model_sites_test {
namespace {

TEST(ModelSites, KeysOfEverySite) {
  ModelSites model{.family = "toy", .layers = 2, .maps = 1, .tied_head = false, .heads = {}, .weights = {}};
  model.heads[Site::kQ] = {1, std::nullopt};
  EXPECT_THAT(model.Keys(Site::kEmbed), testing::ElementsAre(SiteKey{Site::kEmbed}));
  EXPECT_THAT(model.Keys(Site::kLayerOut),
              testing::ElementsAre(SiteKey{Site::kLayerOut, 0}, SiteKey{Site::kLayerOut, 1}));
  EXPECT_THAT(model.Keys(Site::kQ), testing::ElementsAre(SiteKey{Site::kQ, 0, 0, 1}, SiteKey{Site::kQ, 0, 1},
                                                         SiteKey{Site::kQ, 1, 0, 1}, SiteKey{Site::kQ, 1, 1}));
  EXPECT_FALSE(model.Has(Site::kDifference));
  EXPECT_TRUE(model.Keys(Site::kDifference).empty());
  EXPECT_EQ(model.Heads(Site::kQ), 2);
  EXPECT_EQ(model.Heads(Site::kLayerOut), 0);
}

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Statistics in which layer 0's layer_out had 4 for its largest magnitude.
std::shared_ptr<StatisticsSet> Seen() {
  auto set = std::make_shared<StatisticsSet>();
  set->job["weights_sha256"] = "abc";
  set->units = {1};
  SiteStatistics& statistics = set->sites[{Site::kLayerOut, 0}];
  const std::vector<float> row = {1.0f, -4.0f, 2.0f};
  OutlierAccumulator accumulator;
  accumulator.Add(row, {});
  accumulator.FlushInto(statistics.outliers);
  return set;
}

TEST(StaticSourceTest, AValueAboveTheClipBecomesTheLargestCode) {
  const ModelConfig config{.family = "llama", .layers = 2, .heads = 1, .kv_heads = 1};
  SimulatedPlan quantizer("layer_out[l0]=int8/tensor+static", config, FromStatistics(Seen()));
  EXPECT_FALSE(quantizer.resolved.SpansRows());
  EXPECT_FALSE(quantizer.NeedsSurvey(Site::kLayerOut, 0));
  std::vector<float> values = {100.0f, -1.0f, 0.013f};
  const SiteBlock block{
      .site = Site::kLayerOut, .layer = 0, .rows = 1, .first_columns = 3, .values = values.data(), .stride = 3};
  quantizer.BeginBatch(1);
  quantizer.Visit(block, 0);
  const float scale = 4.0f / 127;
  EXPECT_EQ(values[0], 127 * scale);
  EXPECT_EQ(values[1], -32 * scale);  // 31.75
  EXPECT_EQ(values[2], 0.0f);         // 0.41
  EXPECT_THAT(Call([&] { SimulatedPlan("layer_out=int8/tensor+static", config, FromStatistics(Seen())); }),
              ThrowsMessage<Error>(HasSubstr("layer 1, layer_out")));
  values[1] = NAN;
  EXPECT_THAT(Call([&] { quantizer.Visit(block, 0); }), ThrowsMessage<Error>(HasSubstr("NaN or infinity")));
}

TEST(ReadStatisticsOfTest, OtherModelsStatisticsAreRefusedWithBothHashes) {
  const TemporaryFolder folder;
  WriteStatistics(*Seen(), folder / "s.h5");
  EXPECT_EQ(ReadStatisticsOf(folder / "s.h5", "abc", "")->sites.size(), 1u) << "an older file names no configuration";
  EXPECT_THAT(Call([&] { ReadStatisticsOf(folder / "s.h5", "def", ""); }),
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr("abc"), HasSubstr("def"))));
  StatisticsSet configured = *Seen();
  configured.job["config_sha256"] = "123";
  WriteStatistics(configured, folder / "c.h5");
  EXPECT_EQ(ReadStatisticsOf(folder / "c.h5", "abc", "123")->sites.size(), 1u);
  EXPECT_THAT(Call([&] { ReadStatisticsOf(folder / "c.h5", "abc", "456"); }),
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr("config.json 123"), HasSubstr("456"))));
}

}  // namespace
}  // namespace tare::model_sites_test
