// SPDX-License-Identifier: Apache-2.0
#include "quant/file/hdf5_handle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "tests/damage/damage_hdf5.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::hdf5_handle_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

int closed = 0;
herr_t Close(hid_t) {
  ++closed;
  return 0;
}

TEST(Hdf5Handle, ClosesOnceWhateverOwnsIt) {
  closed = 0;
  {
    Hdf5Handle first(7, Close);
    EXPECT_EQ(hid_t{first}, 7);
    const Hdf5Handle second(std::move(first));
    EXPECT_EQ(hid_t{second}, 7);
    EXPECT_EQ(closed, 0);
  }
  EXPECT_EQ(closed, 1);
  {
    const Hdf5Handle none(H5I_INVALID_HID, Close);
  }
  EXPECT_EQ(closed, 1);
}

TEST(Hdf5Handle, AFailureSaysWhereWhatAndWhy) {
  const TemporaryFolder folder;
  PutFile(folder / "text", "no HDF5");
  const QuietHdf5 quiet;
  EXPECT_THAT(Call([&] {
                CheckedHandle(H5Fopen((folder / "text").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "text",
                              "cannot open");
              }),
              ThrowsMessage<Error>(AllOf(StartsWith("text: cannot open: "), HasSubstr("signature"))));
  EXPECT_NO_THROW(CheckHdf5(0, "text", "cannot open"));
}

TEST(Hdf5Handle, TypesRoundTrip) {
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32, DType::kI64,
                            DType::kU64, DType::kF32, DType::kF64}) {
    ASSERT_TRUE(FileType(dtype).has_value());
    EXPECT_EQ(DTypeOfFile(*FileType(dtype)), dtype);
  }
  EXPECT_FALSE(FileType(DType::kBF16).has_value());
  EXPECT_FALSE(DTypeOfFile(H5T_STD_I32BE).has_value());
}

TEST(Hdf5Handle, TheRootHasAName) {
  EXPECT_STREQ(ObjectPath(""), "/");
  EXPECT_STREQ(ObjectPath("a/b"), "a/b");
}

// ---- What the file driver refuses to read, made with the library itself.

enum class Hidden { kNothing, kFilters, kCache };

// A group whose links lie in a heap, as those of large groups do.
std::filesystem::path Written(const std::filesystem::path& path, Hidden hidden) {
  const hid_t create = H5Pcreate(H5P_FILE_CREATE), access = H5Pcreate(H5P_FILE_ACCESS), space = H5Screate(H5S_SCALAR);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_link_phase_change(create, 0, 0);
  if (hidden == Hidden::kFilters) H5Pset_filter(create, H5Z_FILTER_FLETCHER32, 0, 0, nullptr);
  const H5AC_cache_image_config_t image{H5AC__CURR_CACHE_IMAGE_CONFIG_VERSION, hidden == Hidden::kCache, false, -1};
  EXPECT_GE(H5Pset_mdc_image_config(access, const_cast<H5AC_cache_image_config_t*>(&image)), 0);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, create, access);
  const hid_t dataset = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const float value = 7;
  H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
  H5Dclose(dataset), H5Fclose(file), H5Sclose(space), H5Pclose(create), H5Pclose(access);
  return path;
}

TEST(Hdf5Bytes, HeapsWithFiltersAreRefused) {
  const TemporaryFolder folder;
  const Hdf5Reader plain(Written(folder / "plain.h5", Hidden::kNothing));
  EXPECT_THAT(plain.datasets(), ElementsAre("x"));
  EXPECT_THAT(plain.Read<float>("x"), ElementsAre(7));
  const auto names = [&](Hidden hidden) {
    return Call([path = Written(folder / "odd.h5", hidden)] { (void)Hdf5Reader(path).datasets(); });
  };
  EXPECT_THAT(names(Hidden::kFilters),
              ThrowsMessage<Error>(HasSubstr("got a group or attribute with filters, or with numbers")));
  EXPECT_THAT(names(Hidden::kCache), ThrowsMessage<Error>(HasSubstr("odd.h5: damaged")));
}

// They are computed with: the library divided by zero, or read and wrote beyond what it had made for the numbers.
TEST(Hdf5Bytes, NumbersOfHeapsAndTreesThatNobodyWritesAreRefused) {
  const TemporaryFolder folder;
  const std::string whole = GetFile(Written(folder / "plain.h5", Hidden::kNothing));
  struct Forgery {
    const char* signature;
    size_t at;
    std::string bytes;
  };
  for (const auto& [signature, at, bytes] : {Forgery{"FRHP", 110, "\x03"}, Forgery{"FRHP", 128, "\x0a"},
                                             Forgery{"BTHD", 6, std::string(2, '\0')}, Forgery{"BTHD", 10, {'\0'}}}) {
    std::string file = whole;
    const std::vector<damage::Block> blocks = damage::BlocksOf(file);
    const auto block = std::ranges::find(blocks, file.find(signature), &damage::Block::at);
    ASSERT_TRUE(block != blocks.end() && block->checked) << signature;
    file.replace(block->at + at, bytes.size(), bytes);
    damage::Sign(file, *block);
    PutFile(folder / "forged.h5", file);
    const auto read = [&] { (void)Hdf5Reader(folder / "forged.h5").Read<float>("x"); };
    EXPECT_THAT(Call(read), ThrowsMessage<Error>(HasSubstr("numbers that the library does not write"))) << signature;
  }
}

// What is read is what was opened.
TEST(Hdf5Bytes, AFileThatIsReplacedWhileItIsRead) {
  const TemporaryFolder folder;
  const Hdf5Reader reader(Written(folder / "x.h5", Hidden::kNothing));
  std::filesystem::remove(folder / "x.h5");
  PutFile(folder / "x.h5", "no HDF5 file");
  EXPECT_THAT(reader.Read<float>("x"), ElementsAre(7));
}

}  // namespace
}  // namespace tare::hdf5_handle_test
