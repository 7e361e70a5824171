// SPDX-License-Identifier: Apache-2.0
// Written data are read back; equal sets give equal bytes.
#include "quant/statistics/statistics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/calibrate/clipping.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/random_statistics.h"
#include "tests/support/run_command.h"

namespace tare::statistics_file_test {
namespace {

using ::testing::HasSubstr;

TEST(StatisticsFile, RoundTrips) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  const StatisticsSet set = RandomStatistics();
  WriteStatistics(set, path);
  const StatisticsSet read = ReadStatistics(path);
  EXPECT_EQ(read.job, set.job);
  for (const auto& [key, statistics] : set.sites) {
    ASSERT_TRUE(read.sites.contains(key));
    EXPECT_EQ(read.sites.at(key), statistics) << Name(key.site);
  }
  EXPECT_NE(set.rest.at({Site::kLayerOut, 0}), set.sites.at({Site::kLayerOut, 0}));
  EXPECT_EQ(read.skip_first, 1);
  EXPECT_EQ(read.rest, set.rest);
  EXPECT_EQ(read, set);
  WriteStatistics(read, folder / "again.h5");
  EXPECT_EQ(Sha256OfFile(folder / "again.h5"), Sha256OfFile(path));
}

StatisticsSet Example() {
  StatisticsSet set{.job = {{kCalibrateKey, "int8,int4"}}, .units = {1}, .skip_first = 1};
  for (const int head : {0, 1}) {
    SiteStatistics s(SumNames(Site::kProbs).size());
    for (int i = 1; i <= 100; ++i) {
      const float value = static_cast<float>(i * (head + 1)) / 1024;
      s.outliers.magnitudes.Add(value);
      s.outliers.top.Offer(value, {0, 2, head, i, 0});
    }
    set.sites.emplace(SiteKey{Site::kProbs, 2, head, 1}, s);
    set.rest.emplace(SiteKey{Site::kProbs, 2, head, 1}, SiteStatistics(SumNames(Site::kProbs).size()));
  }
  return set;
}

TEST(CalibrationFile, HoldsEveryCalibratorOfRowsAndTensors) {
  const TemporaryFolder folder;
  const StatisticsSet set = Example();
  WriteStatistics(set, folder / "s.h5");
  const Hdf5Reader file(folder / "s.h5");
  EXPECT_EQ(file.StringAttribute("probs/clip.int4", "calibrators"), "minmax p99.9 p99.99 mse entropy");
  EXPECT_EQ(file.Shape("probs/clip.int4"), (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(file.Shape("probs/tensor_clip.int8"), (std::vector<int64_t>{1, 5}));
  const auto clips = file.Read<float>("probs/clip.int4");
  EXPECT_EQ(clips[0], 100.0f / 1024);
  EXPECT_EQ(clips[5], 200.0f / 1024);
  EXPECT_FALSE(file.Has("rest/probs/clip.int4"));  // static scales are of all positions
  const OutlierStatistics& second = set.sites.at({Site::kProbs, 2, 1, 1}).outliers;
  EXPECT_EQ(clips[8], LeastErrorClip(second.magnitudes, 200.0f / 1024, Format::kU4));  // probs are never negative
  EXPECT_EQ(file.Read<float>("probs/tensor_clip.int8")[0], 200.0f / 1024);
  EXPECT_EQ(ReadStatistics(folder / "s.h5"), set);
}

TEST(CalibrationFile, APartOfAJobHasNoScales) {
  const TemporaryFolder folder;
  StatisticsSet set = Example();
  set.units = {1, 0};
  WriteStatistics(set, folder / "s.h5");
  EXPECT_FALSE(Hdf5Reader(folder / "s.h5").Has("probs/clip.int4"));
}

TEST(CalibrationFile, FormatsAreSigned) {
  EXPECT_EQ(ParseCalibratedFormats("int8,int4"), (std::vector<Format>{Format::kInt8, Format::kInt4}));
  for (const char* text : {"u8", "f32", "int8,", "", "int8,int8", "int5"}) {
    try {
      ParseCalibratedFormats(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("--calibrate: got '"));
    }
  }
}

}  // namespace

}  // namespace tare::statistics_file_test
