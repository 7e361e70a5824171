// SPDX-License-Identifier: Apache-2.0
// A damaged file is refused or gives the same contents; a file of another kind is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <random>

#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/statistics/statistics_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/random_statistics.h"

namespace tare::statistics_reader_test {
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

TEST(StatisticsReader, ADamagedFileIsRefusedOrEqual) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  const StatisticsSet set = RandomStatistics();
  WriteStatistics(set, path);
  const std::string whole = GetFile(path);
  std::mt19937 random(2);
  int refused = 0;
  constexpr int kRounds = 100;
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

TEST(StatisticsReader, SumsThatBeginTooFarUpAreRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  WriteStatistics(RandomStatistics(), path);
  std::string sums;
  for (const std::string& name : Hdf5Reader(path).datasets()) {
    if (name.ends_with("/sums")) sums = name;
  }
  ASSERT_NE(sums, "");
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Adelete_by_name(file, sums.c_str(), "first_limb", H5P_DEFAULT);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute =
      H5Acreate_by_name(file, sums.c_str(), "first_limb", H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const int64_t last = 69;  // the largest limb: wider sums do not fit from there on
  EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_INT64, &last), 0);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Fclose(file);
  EXPECT_THAT(Refused(path), HasSubstr("a first_limb that no sum has"));
}

TEST(StatisticsReader, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "s.h5";
  {
    Hdf5Writer other(path);
    other.SetAttribute("", "schema", "tare.dump/1");
    other.Commit();
  }
  EXPECT_THAT(Refused(path), HasSubstr("got schema tare.dump/1, expected tare.stats.file/2"));
  PutFile(folder / "text", "no HDF5");
  EXPECT_NE(Refused(folder / "text"), "");
  EXPECT_NE(Refused(folder / "missing"), "");
}

}  // namespace
}  // namespace tare::statistics_reader_test
