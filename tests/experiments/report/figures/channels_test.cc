// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "quant/file/hdf5.h"
#include "tests/support/report_material.h"

namespace tare::channels_test {
namespace {

using ::testing::ElementsAre;

// Two sequences of 3 tokens and 64 channels, all 0.5 but for what a test puts there.
class ChannelsTest : public testing::Test {
 protected:
  std::vector<FigureData> Figures(const std::vector<float>& values) {
    Hdf5Writer file(folder_ / "d.h5");
    file.SetAttribute("", "schema", "tare.dump/1");
    file.SetAttribute("", "model", "m");
    file.SetAttribute("", "weights_sha256", "77aa");
    file.SetAttribute("", "plan", "f32");
    file.WriteDataset("layer_out.0", DType::kF32, {2, 3, 64}, std::vector<float>(values.size(), 0.5f).data());
    file.WriteDataset("layer_out.1", DType::kF32, {2, 3, 64}, values.data());
    file.Commit();
    return Channels(ReadMaterial({folder_ / "d.h5"}));
  }
  std::vector<float> values_ = std::vector<float>(2 * 3 * 64, 0.5f);
  TemporaryFolder folder_;
};

TEST_F(ChannelsTest, NoOutlierIsLostInItsRange) {
  values_[(3 + 2) * 64 + 41] = -90.0f;  // sequence 1, token 2
  const std::vector<FigureData> figures = Figures(values_);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_FALSE(figures[0].on_page);
  EXPECT_TRUE(figures[1].on_page);
  ASSERT_EQ(figures[1].table.rows.size(), 3u * 32);
  EXPECT_THAT(figures[1].table.rows[2 * 32 + 20], ElementsAre("m", 2, 3, 40, 42, 90.0, 4));
  EXPECT_THAT(figures[1].findings,
              ElementsAre("The largest magnitude of layer_out.1 in m is 90, at token 2, channels 40 to 41."));
}

TEST_F(ChannelsTest, WhatIsNotFiniteIsNamed) {
  values_[64] = NAN;
  const std::vector<FigureData> figures = Figures(values_);
  EXPECT_THAT(MissingOf(figures[1]),
              ElementsAre("model m, tokens from 1, before 2, channels from 0, before 2: largest |x| is not a number"));
}

}  // namespace
}  // namespace tare::channels_test
