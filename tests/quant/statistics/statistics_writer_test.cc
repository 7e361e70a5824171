// SPDX-License-Identifier: Apache-2.0
// Figures stand in the file for readers other than ours, who know quant/STATISTICS.md alone.
#include <gtest/gtest.h>

#include "quant/file/hdf5.h"
#include "quant/statistics/statistics_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/random_statistics.h"

namespace tare {
namespace {

TEST(StatisticsWriter, FiguresStandInItForOtherReaders) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  const StatisticsSet set = RandomStatistics();
  WriteStatistics(set, path);
  const Hdf5Reader file(path);
  const SiteStatistics& second = set.sites.at({Site::kLayerOut, 1});
  EXPECT_EQ(file.Read<int32_t>("layer_out/layer"), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(file.Read<float>("layer_out/absmax").at(1), second.outliers.absmax());
  EXPECT_EQ(file.Read<float>("layer_out/median").at(1), second.outliers.magnitudes.Median());
  EXPECT_EQ(file.Read<double>("layer_out/kurtosis").at(1), second.Total().Powers().Kurtosis());
  EXPECT_EQ(file.Read<uint64_t>("layer_out/count").at(1), 300u);
}

}  // namespace
}  // namespace tare
