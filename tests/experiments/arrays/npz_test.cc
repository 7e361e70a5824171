// SPDX-License-Identifier: Apache-2.0
// Reads files written by numpy (tests/data/captured/make.py).
#include "experiments/arrays/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "quant/base/error.h"
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
