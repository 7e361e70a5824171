// SPDX-License-Identifier: Apache-2.0
#include "quant/file/hdf5_handle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::hdf5_handle_test {
namespace {

using testing::AllOf;
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

}  // namespace
}  // namespace tare::hdf5_handle_test
