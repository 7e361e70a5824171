// SPDX-License-Identifier: Apache-2.0
// The hash is the checkpoint's, and a value that is not finite is found wherever it lies.
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
#include "experiments/quantize/read_whole.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "quant/base/error.h"
#include "quant/checkpoint/checkpoint.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::read_whole_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ReadWhole, ReturnsTheContentHash) {
  for (const char* golden : {"llama-gqa", "diffllama-gqa", "phi3"}) {
    const Checkpoint files(GoldenFolder(golden));
    int64_t last = 0;
    const std::string hash = ReadWhole(GoldenFolder(golden), [&](int64_t done, int64_t total, const char* unit) {
      EXPECT_LE(last, done);
      EXPECT_EQ(total, files.total_bytes());
      EXPECT_STREQ(unit, "bytes");
      last = done;
    });
    EXPECT_EQ(hash, files.ContentHash());
    EXPECT_EQ(last, files.total_bytes()) << golden;
  }
}

TEST(ReadWhole, OfAFileThatIsNoFolder) {
  const std::filesystem::path file = std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf/llama-q4_k_m.gguf";
  EXPECT_EQ(ReadWhole(file, {}), Checkpoint(file).ContentHash());
}

// Parts of files are of 8 MiB: values about their ends, the first and the last ones.
TEST(ReadWhole, FindsWhatIsNotFinite) {
  const TemporaryFolder folder;
  constexpr size_t kValues = (size_t{17} << 20) / 4;
  for (const size_t at :
       {size_t{0}, (size_t{2} << 20) - 64, (size_t{2} << 20) - 1, size_t{2} << 20, size_t{3} << 20, kValues - 1}) {
    EditedCheckpoint checkpoint(GoldenFolder("llama-gqa"));
    EditedCheckpoint::Tensor& tensor = checkpoint.tensors["added"];
    tensor.dtype = DType::kF32;
    tensor.shape = {static_cast<int64_t>(kValues)};
    tensor.bytes.assign(4 * kValues, std::byte{0});
    checkpoint.Write(folder / "m");
    EXPECT_NO_THROW(ReadWhole(folder / "m", {}));
    const float bad = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(tensor.bytes.data() + 4 * at, &bad, sizeof bad);
    const auto refused =
        AllOf(HasSubstr("/m: tensor 'added', index " + std::to_string(at) + ":"), HasSubstr("NaN or infinity"));
    checkpoint.Write(folder / "m");
    EXPECT_THAT([&] { ReadWhole(folder / "m", {}); }, ThrowsMessage<Error>(refused));
  }
}

// A value that lies across two parts.
TEST(ReadWhole, FindsWhatPartsShare) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-gqa"));
  EditedCheckpoint::Tensor& tensor = checkpoint.tensors["added"];
  tensor.shape = {int64_t{3} << 20};
  tensor.bytes.assign(size_t{12} << 20, std::byte{0});
  checkpoint.WriteMisaligned(folder / "m");
  const Safetensors file(folder / "m" / "model.safetensors");
  const auto begin = static_cast<size_t>(file.Find("added")->bytes.data() - file.file().bytes().data());
  ASSERT_NE(begin % 4, 0u);
  tensor.SetBits(((size_t{8} << 20) - begin) / 4, 0x7fc00000);
  checkpoint.WriteMisaligned(folder / "m");
  EXPECT_THAT([&] { ReadWhole(folder / "m", {}); }, ThrowsMessage<Error>(HasSubstr("NaN or infinity")));
}

}  // namespace
}  // namespace tare::read_whole_test
