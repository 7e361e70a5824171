// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/hdf5.h"
#include "quant/file/safetensors.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::array_file_test {
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
  const std::vector<double> wide{0.1, -2.0, 3.4e38, 1e39, std::numeric_limits<double>::infinity()};
  const std::vector<uint64_t> large{1, uint64_t{1} << 63, ~uint64_t{0}};
  WriteSafetensors(folder / "a.safetensors", {{"a", DType::kBool, {3}, std::as_bytes(std::span(truth))},
                                              {"b", DType::kI64, {3}, std::as_bytes(std::span(ids))},
                                              {"c", DType::kF16, {3}, std::as_bytes(std::span(half))},
                                              {"d", DType::kBF16, {3}, std::as_bytes(std::span(brain))},
                                              {"e", DType::kF64, {5}, std::as_bytes(std::span(wide))},
                                              {"f", DType::kF8E4M3, {3}, std::as_bytes(std::span(truth))},
                                              {"g", DType::kU64, {3}, std::as_bytes(std::span(large))}});
  const auto file = ArrayFile::Open(folder / "a.safetensors");
  EXPECT_THAT(Read(*file, 0, 0, 1, 3), ElementsAre(1, 0, 1));
  EXPECT_THAT(Read(*file, 1, 0, 1, 3), ElementsAre(-3, 5, 1 << 20));
  EXPECT_EQ(file->Values(file->arrays()[1]).Integer(2), 1 << 20);
  EXPECT_THAT(Read(*file, 2, 0, 1, 3), ElementsAre(0.5f, -2.0f, 65504.0f));
  EXPECT_THAT(Read(*file, 3, 0, 2, 2), ElementsAre(0.5f, FloatFromBf16(brain[2])));
  EXPECT_THAT(Read(*file, 4, 0, 1, 3), ElementsAre(0.1f, -2.0f, 3.4e38f));
  EXPECT_THAT(Read(*file, 4, 4, 1, 1), ElementsAre(std::numeric_limits<float>::infinity()));
  EXPECT_THAT(Call([&] { Read(*file, 4, 0, 1, 5); }),
              ThrowsMessage<Error>(HasSubstr("a.safetensors: e: got 1e+39, expected what f32 can hold")));
  EXPECT_THAT(Read(*file, 6, 0, 1, 3), ElementsAre(1, 0x1p63f, 0x1p64f));
  EXPECT_THAT(Call([&] { (void)file->Values(file->arrays()[5]); }),
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
  EXPECT_THAT(Call([&] { (void)ArrayFile::Open(folder / "a.pt"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("a.pt: got the ending '.pt'"), HasSubstr(".npz"))));
  EXPECT_THAT(Call([&] { (void)ArrayFile::Open(folder / "a.npz"); }),
              ThrowsMessage<Error>(HasSubstr("a.npz: cannot read")));
}

TEST(ArraysInMemory, ReadLikeArraysOfAFile) {
  const std::vector<float> values{1.0f, 2.0f, 3.0f, 4.0f};
  const std::vector<int64_t> ids{7, 9};
  const auto arrays = ArraysInMemory("batch 3", {{{"y", DType::kF32, {2, 2}}, std::as_bytes(std::span(values))},
                                                 {{"x", DType::kI64, {2}}, std::as_bytes(std::span(ids))}});
  EXPECT_EQ(arrays->path(), "batch 3");
  ASSERT_EQ(arrays->arrays().size(), 2u);
  EXPECT_EQ(arrays->arrays()[0].name, "x");  // by name
  std::vector<float> column(2);
  arrays->Values(arrays->arrays()[1]).Read(1, 2, 2, column.data());
  EXPECT_THAT(column, testing::ElementsAre(2.0f, 4.0f));
  EXPECT_EQ(arrays->Values(arrays->arrays()[0]).Integer(1), 9);
}

std::string DigestOf(const ArrayInfo& info, const std::vector<float>& values) {
  Sha256 sha;
  AddArray(sha, info, {DType::kF32, std::as_bytes(std::span(values))});
  return sha.Hex();
}

TEST(ArrayDigestTest, ValuesInAnotherTypeAreTheSame) {
  const std::vector<float> values{1.0f, -2.0f, 0.5f};
  const std::vector<double> wide(values.begin(), values.end());
  const ArrayInfo info{"x", DType::kF32, {3}};
  Sha256 sha;
  AddArray(sha, {"x", DType::kF64, {3}}, {DType::kF64, std::as_bytes(std::span(wide))});
  EXPECT_EQ(sha.Hex(), DigestOf(info, values));
}

// One bit anywhere, two values changed for each other, zeros at the end, another name or shape.
TEST(ArrayDigestTest, DifferencesChangeTheDigest) {
  constexpr int64_t kCount = 9001;  // two blocks, and a tail
  std::vector<float> values(kCount);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13);
  const ArrayInfo info{"x", DType::kF32, {kCount}};
  std::set<std::string> seen{DigestOf(info, values), DigestOf({"y", DType::kF32, {kCount}}, values),
                             DigestOf({"x", DType::kF32, {1, kCount}}, values)};
  for (const size_t i : {0uz, 1uz, 7uz, 4095uz, 4096uz, 8999uz, 9000uz}) {
    std::vector<float> other = values;
    other[i] = -other[i] - 1.0f;
    seen.insert(DigestOf(info, other));
    other = values;
    std::swap(other[i], other[(i + 2) % values.size()]);
    seen.insert(DigestOf(info, other));
  }
  values.push_back(0.0f);
  seen.insert(DigestOf({"x", DType::kF32, {kCount + 1}}, values));
  EXPECT_EQ(seen.size(), 3u + 14u + 1u);
}

TEST(ArrayDigestTest, AnyNumberOfThreads) {
  const std::vector<float> values(50000, 1.5f);
  const ArrayInfo info{"x", DType::kF32, {50000}};
  SetThreads(1);
  const std::string one = DigestOf(info, values);
  SetThreads(3);
  EXPECT_EQ(DigestOf(info, values), one);
  SetThreads(0);
}

}  // namespace

}  // namespace tare::array_file_test
