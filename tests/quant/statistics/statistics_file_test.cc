// SPDX-License-Identifier: Apache-2.0
// What is written is read back; equal sets are equal bytes.
#include "quant/statistics/statistics_file.h"

#include <gtest/gtest.h>

#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/random_statistics.h"

namespace tare {
namespace {

TEST(StatisticsFile, WhatIsWrittenIsReadBack) {
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
  EXPECT_EQ(read, set);
  WriteStatistics(read, folder / "again.h5");
  EXPECT_EQ(Sha256OfFile(folder / "again.h5"), Sha256OfFile(path));
}

}  // namespace
}  // namespace tare
