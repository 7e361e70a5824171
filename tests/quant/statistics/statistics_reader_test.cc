// SPDX-License-Identifier: Apache-2.0
// A damaged file is refused, or says what it said; and so is a file of another kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "quant/base/error.h"
#include "quant/file/hdf5.h"
#include "quant/statistics/statistics_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/random_statistics.h"

namespace tare {
namespace {

using testing::HasSubstr;

std::string Refused(const std::filesystem::path& path) {
  try {
    ReadStatistics(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StatisticsReader, ADamagedFileIsRefusedOrSaysTheSame) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  const StatisticsSet set = RandomStatistics();
  WriteStatistics(set, path);
  const std::string whole = GetFile(path);
  std::mt19937 random(2);
  int refused = 0;
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    PutFile(folder / "damaged.h5", bytes);
    try {
      EXPECT_EQ(ReadStatistics(folder / "damaged.h5"), set);  // the byte was padding
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, kRounds / 2);
  for (const size_t size : {size_t{0}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    PutFile(folder / "short.h5", whole.substr(0, size));
    EXPECT_NE(Refused(folder / "short.h5"), "") << size;
  }
}

TEST(StatisticsReader, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  {
    Hdf5Writer other(path);
    other.SetAttribute("", "schema", "tare.dump/1");
    other.Commit();
  }
  EXPECT_THAT(Refused(path), HasSubstr("got schema tare.dump/1, expected tare.stats.file/1"));
  PutFile(folder / "text", "no HDF5");
  EXPECT_NE(Refused(folder / "text"), "");
  EXPECT_NE(Refused(folder / "missing"), "");
}

}  // namespace
}  // namespace tare
