// SPDX-License-Identifier: Apache-2.0
// What is written is read back; equal sets are equal bytes; a damaged file is refused, or says what it said.
#include "quant/statistics/statistics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "quant/base/error.h"
#include "quant/file/hdf5.h"
#include "quant/file/sha256.h"
#include "tests/support/run_command.h"

namespace tare {
namespace {

using ::testing::HasSubstr;

SiteStatistics Drawn(size_t sums, size_t channels, std::mt19937& random) {
  std::normal_distribution<float> normal;
  SiteStatistics s(sums);
  s.channel_absmax.assign(channels, 1.5f);
  s.token_absmax = {1.0f, 2.0f, 0.0f};
  s.channel_energy = ExactSums(channels);
  s.largest_row_norm = 7.0f;
  for (int i = 0; i < 300; ++i) {
    const float value = normal(random);
    s.outliers.magnitudes.Add(value);
    s.outliers.top.Offer(value, {i, 0, 0, i % 7, i % 5});
    s.largest = std::max(s.largest.value_or(value), value);
    Fold& fold = s.folds[static_cast<size_t>(i) % s.folds.size()];
    ++fold.values;
    fold.absmax = std::max(fold.absmax, std::fabs(value));
    fold.sums.Add(static_cast<size_t>(i) % sums, value);
    if (channels > 0) s.channel_energy.Add(static_cast<size_t>(i) % channels, value);
  }
  return s;
}

// Layer and head of a place are those of the key.
void Place(const SiteKey& key, SiteStatistics& s) {
  OutlierStatistics outliers;
  outliers.magnitudes = s.outliers.magnitudes;
  for (const TopValue& t : s.outliers.top.Sorted())
    outliers.top.Offer(t.value, {t.place.sequence, key.layer, key.head, t.place.row, t.place.column});
  outliers.AddNonfinite({3, key.layer, key.head, 4, 5});
  s.outliers = outliers;
}

StatisticsSet Example() {
  std::mt19937 random(1);
  StatisticsSet set{.job = {{"model", "m"}, {"window", "512"}},
                    .formats = {"int8/row"},
                    .units = {1, 0, 1},
                    .positions = 100,
                    .tokens = 98,
                    .lambda = {{0, 0.2f}, {1, 0.35f}}};
  for (const SiteKey key : {SiteKey{Site::kLayerOut, 0}, SiteKey{Site::kLayerOut, 1}}) {
    set.sites.emplace(key, Drawn(set.Sums(key.site).size(), 6, random));
  }
  set.sites.emplace(SiteKey{Site::kProbs, 0, 2, 1}, Drawn(set.Sums(Site::kProbs).size(), 0, random));
  set.sites.emplace(SiteKey{Site::kEmbed}, SiteStatistics(set.Sums(Site::kEmbed).size()));  // saw nothing
  for (auto& [key, statistics] : set.sites) Place(key, statistics);
  set.sites.at(SiteKey{Site::kEmbed}).outliers = OutlierStatistics();
  return set;
}

class StatisticsFileTest : public testing::Test {
 protected:
  std::string Refused(const std::filesystem::path& path) {
    try {
      ReadStatistics(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "s.h5";
};

TEST_F(StatisticsFileTest, WhatIsWrittenIsReadBack) {
  const StatisticsSet set = Example();
  WriteStatistics(set, file_);
  const StatisticsSet read = ReadStatistics(file_);
  EXPECT_EQ(read.job, set.job);
  for (const auto& [key, statistics] : set.sites) {
    ASSERT_TRUE(read.sites.contains(key));
    EXPECT_EQ(read.sites.at(key), statistics) << Name(key.site);
  }
  EXPECT_EQ(read, set);
  WriteStatistics(read, folder_ / "again.h5");
  EXPECT_EQ(Sha256OfFile(folder_ / "again.h5"), Sha256OfFile(file_));
}

TEST_F(StatisticsFileTest, FiguresStandInItForOtherReaders) {
  const StatisticsSet set = Example();
  WriteStatistics(set, file_);
  const Hdf5Reader file(file_);
  const SiteStatistics& second = set.sites.at({Site::kLayerOut, 1});
  EXPECT_EQ(file.Read<int32_t>("layer_out/layer"), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(file.Read<float>("layer_out/absmax").at(1), second.outliers.absmax());
  EXPECT_EQ(file.Read<float>("layer_out/median").at(1), second.outliers.magnitudes.Median());
  EXPECT_EQ(file.Read<double>("layer_out/kurtosis").at(1), second.Total().Powers().Kurtosis());
  EXPECT_EQ(file.Read<uint64_t>("layer_out/count").at(1), 300u);
}

TEST_F(StatisticsFileTest, ADamagedFileIsRefusedOrSaysTheSame) {
  const StatisticsSet set = Example();
  WriteStatistics(set, file_);
  const std::string whole = GetFile(file_);
  std::mt19937 random(2);
  int refused = 0;
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    PutFile(folder_ / "damaged.h5", bytes);
    try {
      EXPECT_EQ(ReadStatistics(folder_ / "damaged.h5"), set);  // the byte was padding
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, kRounds / 2);
  for (const size_t size : {size_t{0}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    PutFile(folder_ / "short.h5", whole.substr(0, size));
    EXPECT_NE(Refused(folder_ / "short.h5"), "") << size;
  }
}

TEST_F(StatisticsFileTest, OtherFilesAreRefused) {
  {
    Hdf5Writer other(file_);
    other.SetAttribute("", "schema", "tare.dump/1");
    other.Commit();
  }
  EXPECT_THAT(Refused(file_), HasSubstr("got schema tare.dump/1, expected tare.stats.file/1"));
  PutFile(folder_ / "text", "no HDF5");
  EXPECT_NE(Refused(folder_ / "text"), "");
  EXPECT_NE(Refused(folder_ / "missing"), "");
}

}  // namespace
}  // namespace tare
