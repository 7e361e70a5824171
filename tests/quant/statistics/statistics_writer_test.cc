// SPDX-License-Identifier: Apache-2.0
// Figures in the file for other readers, which know only docs/reference/statistics-file.md.
#include <gtest/gtest.h>

#include "quant/file/hdf5.h"
#include "quant/statistics/statistics_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/random_statistics.h"
#include "tests/support/sums.h"

namespace tare::statistics_writer_test {
namespace {

TEST(StatisticsWriter, HasFiguresForOtherReaders) {
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
  EXPECT_EQ(file.IntAttribute("", "skip_first"), 1);
  EXPECT_EQ(file.Read<float>("rest/layer_out/absmax").at(0), set.rest.at({Site::kLayerOut, 0}).outliers.absmax());
  EXPECT_FALSE(file.Has("rest/embed/layer"));
}

// One number per row and format, beside the sums that it follows from.
TEST(StatisticsWriter, HasSignalToNoiseBesideItsSums) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  StatisticsSet set = RandomStatistics();
  set.sites.clear();
  set.rest.clear();
  set.formats = {"int8/row", "int4/row"};
  SiteStatistics s(set.Sums(Site::kQ).size());
  s.folds[0].sums.Add(kSumX2, 1000), s.folds[3].sums.Add(kSumX2, 1000);
  s.folds[0].sums.Add(FindSum(set, Site::kQ, "int8/row.error2").value(), 2);
  s.folds[3].sums.Add(FindSum(set, Site::kQ, "int4/row.error2").value(), 20);
  set.sites.emplace(SiteKey{Site::kQ, 0, 1}, s);
  WriteStatistics(set, path);
  const Hdf5Reader file(path);
  EXPECT_EQ(file.Shape("q/sqnr_db"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(file.StringAttribute("q/sqnr_db", "formats"), "int8/row int4/row");
  EXPECT_EQ(file.Read<double>("q/sqnr_db"), (std::vector<double>{30.0, 20.0}));
}

}  // namespace
}  // namespace tare::statistics_writer_test
