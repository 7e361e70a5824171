// SPDX-License-Identifier: Apache-2.0
// Reads files written by numpy (tests/data/captured/make.py).
#include "experiments/arrays/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::npz_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path DataFile(const std::string& name) {
  return GoldenFolder("").parent_path() / ".." / "captured" / name;
}

TEST(Npz, ReadsWhatNumpyWrote) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::unique_ptr<ArrayFile> file = OpenNpz(DataFile(name));
    std::map<std::string, ArrayInfo> arrays;
    for (const ArrayInfo& array : file->arrays()) arrays[array.name] = array;
    ASSERT_EQ(arrays.size(), 5u);
    EXPECT_EQ(arrays["attention_mask"].dtype, DType::kBool);
    EXPECT_EQ(arrays["layer_out.1"].dtype, DType::kF16);
    EXPECT_EQ(file->Values(arrays["input_ids"]).Integer(5), 5);
    for (const int layer : {0, 1, 2}) {
      const ArrayInfo& array = arrays["layer_out." + std::to_string(layer)];
      EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3, 4}));
      std::vector<float> values(24);
      file->Values(array).Read(0, 1, 24, values.data());
      for (size_t i = 0; i < values.size(); ++i) {
        const float x = static_cast<float>(i) - 11.5f;
        EXPECT_NEAR(values[i], layer == 0 ? x : x / 3, layer == 1 ? 2e-3 : 1e-6) << layer << ' ' << i;
      }
    }
  }
}

// In their order, again from before, and between reads of another member.
TEST(Npz, ReadsRowsAlone) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::unique_ptr<ArrayFile> file = OpenNpz(DataFile(name));
    const ArrayInfo& array = *file->Find("layer_out.0");
    for (const int64_t row : {0, 1, 4, 2, 3}) {
      std::vector<float> values(8);
      file->Values(array, RowRange{row, 2}).Read(0, 1, 8, values.data());
      for (size_t i = 0; i < 8; ++i) EXPECT_EQ(values[i], static_cast<float>(4 * row) + static_cast<float>(i) - 11.5f);
      EXPECT_EQ(file->Values(*file->Find("input_ids")).Integer(5), 5);
    }
  }
}

// The archive's checksum is known after the member's last byte, which no row is.
TEST(Npz, RowsOfADamagedMemberAreRefused) {
  const TemporaryFolder folder;
  std::string bytes = GetFile(DataFile("stored.npz"));
  const float last = 11.5f;
  const size_t at = bytes.find(std::string_view(reinterpret_cast<const char*>(&last), sizeof last));
  ASSERT_NE(at, bytes.npos);
  bytes[at] ^= 1;
  PutFile(folder / "d.npz", bytes);
  const std::unique_ptr<ArrayFile> file = OpenNpz(folder / "d.npz");
  EXPECT_THAT(Call([&] { (void)file->Values(*file->Find("layer_out.0"), RowRange{0, 1}); }),
              ThrowsMessage<Error>(HasSubstr("d.npz: layer_out.0: damaged")));
}

TEST(Npz, RefusesUnsupportedArrays) {
  const std::pair<const char*, const char*> files[] = {{"columns_first.npz", "Fortran order"},
                                                       {"objects.npz", "got type '|O'"},
                                                       {"big_endian.npz", "got type '>f4'"},
                                                       {"record.npz", "no record of several"}};
  for (const auto& [name, message] : files) {
    EXPECT_THAT(Call([&] {
                  const std::unique_ptr<ArrayFile> file = OpenNpz(DataFile(name));
                  (void)file->Values(file->arrays().at(0));
                }),
                ThrowsMessage<Error>(testing::AllOf(HasSubstr(name), HasSubstr("layer_out.0"), HasSubstr(message))));
  }
}

TEST(Npy, IsAnArrayOfTheFilesName) {
  const TemporaryFolder folder;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(117, ' ');
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::string bytes = std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" +
                            std::string(reinterpret_cast<const char*>(values.data()), 24);
  PutFile(folder / "q.0.npy", bytes);
  const std::unique_ptr<ArrayFile> file = ArrayFile::Open(folder / "q.0.npy");
  ASSERT_EQ(file->arrays().size(), 1u);
  EXPECT_EQ(file->arrays()[0].name, "q.0");
  std::vector<float> read(3);
  file->Values(file->arrays()[0], RowRange{1, 1}).Read(0, 1, 3, read.data());
  EXPECT_EQ(read, (std::vector<float>{4, 5, 6}));
  file->Values(file->arrays()[0]).Read(2, 1, 3, read.data());
  EXPECT_EQ(read, (std::vector<float>{3, 4, 5}));
  PutFile(folder / "q.0.npy", bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(Call([&] { (void)ArrayFile::Open(folder / "q.0.npy"); }),
              ThrowsMessage<Error>(HasSubstr("q.0.npy: got 23 bytes of values, expected those of F32 [2, 3]")));
}

// Every byte damaged in turn: refused, or the same values (the archive has bytes that mean nothing, and checksums).
TEST(Npz, DamageIsRefusedOrHarmless) {
  const TemporaryFolder folder;
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::string whole = GetFile(DataFile(name));
    for (size_t at = 0; at < whole.size(); at += 3) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      PutFile(folder / "d.npz", damaged);
      try {
        const std::unique_ptr<ArrayFile> file = OpenNpz(folder / "d.npz");
        for (const ArrayInfo& array : file->arrays()) {
          if (array.name != "layer_out.0") continue;
          float value = 0.0f;
          file->Values(array).Read(23, 1, 1, &value);
          EXPECT_EQ(value, 11.5f) << at;
        }
      } catch (const Error&) {
      }
    }
    for (size_t size = 0; size < whole.size(); size += 50) {
      PutFile(folder / "d.npz", whole.substr(0, size));
      EXPECT_THROW(OpenNpz(folder / "d.npz"), Error) << size;
    }
  }
}

}  // namespace
}  // namespace tare::npz_test
