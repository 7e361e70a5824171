// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/base/float16.h"
#include "quant/file/hdf5.h"
#include "quant/file/safetensors.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> Read(const ArrayFile& file, size_t array, int64_t first, int64_t stride, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  file.Values(file.arrays().at(array)).Read(first, stride, count, values.data());
  return values;
}

TEST(ArrayFile, SafetensorsOfEveryReadableType) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> truth{1, 0, 1};
  const std::vector<int64_t> ids{-3, 5, 1 << 20};
  const std::vector<uint16_t> half{F16FromFloat(0.5f), F16FromFloat(-2.0f), F16FromFloat(65504.0f)};
  const std::vector<uint16_t> brain{Bf16FromFloat(0.5f), Bf16FromFloat(-2.0f), Bf16FromFloat(1e30f)};
  const std::vector<double> wide{0.1, -2.0, 1e300};
  WriteSafetensors(folder / "a.safetensors", {{"a", DType::kBool, {3}, std::as_bytes(std::span(truth))},
                                              {"b", DType::kI64, {3}, std::as_bytes(std::span(ids))},
                                              {"c", DType::kF16, {3}, std::as_bytes(std::span(half))},
                                              {"d", DType::kBF16, {3}, std::as_bytes(std::span(brain))},
                                              {"e", DType::kF64, {3}, std::as_bytes(std::span(wide))},
                                              {"f", DType::kF8E4M3, {3}, std::as_bytes(std::span(truth))}});
  const auto file = ArrayFile::Open(folder / "a.safetensors");
  EXPECT_THAT(Read(*file, 0, 0, 1, 3), ElementsAre(1, 0, 1));
  EXPECT_THAT(Read(*file, 1, 0, 1, 3), ElementsAre(-3, 5, 1 << 20));
  EXPECT_EQ(file->Values(file->arrays()[1]).Integer(2), 1 << 20);
  EXPECT_THAT(Read(*file, 2, 0, 1, 3), ElementsAre(0.5f, -2.0f, 65504.0f));
  EXPECT_THAT(Read(*file, 3, 0, 2, 2), ElementsAre(0.5f, FloatFromBf16(brain[2])));
  EXPECT_THAT(Read(*file, 4, 0, 1, 3), ElementsAre(0.1f, -2.0f, std::numeric_limits<float>::infinity()));
  EXPECT_THAT([&] { (void)file->Values(file->arrays()[5]); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.safetensors: f: got type F8_E4M3"), HasSubstr("try"))));
}

TEST(ArrayFile, Hdf5DatasetsByTheirPaths) {
  const TemporaryFolder folder;
  Hdf5Writer writer(folder / "a.h5");
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  writer.WriteDataset("run/q.0", DType::kF32, {2, 3}, values.data());
  writer.Commit();
  const auto file = ArrayFile::Open(folder / "a.h5");
  ASSERT_EQ(file->arrays().size(), 1u);
  EXPECT_EQ(file->arrays()[0].name, "run/q.0");
  EXPECT_THAT(file->arrays()[0].shape, ElementsAre(2, 3));
  EXPECT_THAT(Read(*file, 0, 1, 3, 2), ElementsAre(2, 5));
}

TEST(ArrayFile, OtherFilesAreRefusedByName) {
  const TemporaryFolder folder;
  PutFile(folder / "a.pt", "");
  PutFile(folder / "a.npz", "no archive");
  EXPECT_THAT([&] { (void)ArrayFile::Open(folder / "a.pt"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.pt: got the ending '.pt'"), HasSubstr(".npz"))));
  EXPECT_THAT([&] { (void)ArrayFile::Open(folder / "a.npz"); }, ThrowsMessage<Error>(HasSubstr("a.npz: cannot read")));
}

}  // namespace
}  // namespace tare
