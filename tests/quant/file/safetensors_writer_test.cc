// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/safetensors.h"
#include "tests/quant/file/safetensors_bytes.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::safetensors_writer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(SafetensorsWriter, IsReadBack) {
  const TemporaryFolder folder;
  const std::vector<float> f{1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> i{-1, INT64_MAX};
  const std::string u = "odd";
  const std::map<std::string, std::string> metadata{{"quote", "\"\\\n"}, {"format", "pt"}};
  WriteSafetensors(folder / "a",
                   {{"u\"\n", DType::kU8, {3}, AsBytes(u)},
                    {"f", DType::kF32, {2, 3}, std::as_bytes(std::span(f))},
                    {"none", DType::kF64, {0, 4}, {}},
                    {"i", DType::kI64, {2}, std::as_bytes(std::span(i))}},
                   metadata);
  const Safetensors file(folder / "a");
  EXPECT_THAT(file.names(), ElementsAre("f", "i", "none", "u\"\n"));
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_TRUE(std::ranges::equal(file.Find("f")->bytes, std::as_bytes(std::span(f))));
  EXPECT_TRUE(std::ranges::equal(file.Find("i")->bytes, std::as_bytes(std::span(i))));
  EXPECT_TRUE(std::ranges::equal(file.Find("u\"\n")->bytes, AsBytes(u)));
  EXPECT_THAT(file.Find("none")->shape, ElementsAre(0, 4));
}

TEST(SafetensorsWriter, AlignsEveryTensorToItsType) {
  const TemporaryFolder folder;
  const std::string bytes(64, 'x');
  for (size_t pad = 0; pad < 9; ++pad) {  // whatever the header's length
    WriteSafetensors(folder / "a", {{"a" + std::string(pad, 'x'), DType::kU8, {3}, AsBytes(bytes).first(3)},
                                    {"b", DType::kBF16, {3}, AsBytes(bytes).first(6)},
                                    {"c", DType::kF32, {3}, AsBytes(bytes).first(12)},
                                    {"d", DType::kI64, {3}, AsBytes(bytes).first(24)}});
    const Safetensors file(folder / "a");
    for (const TensorView& tensor : file.tensors()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % (Bits(tensor.dtype) / 8), 0u) << tensor.name;
    }
  }
}

TEST(SafetensorsWriter, EqualContentIsEqualBytes) {
  const TemporaryFolder folder;
  const std::string bytes(4, 'x');
  const TensorView a{"a", DType::kU8, {4}, AsBytes(bytes)}, b{"b", DType::kF32, {}, AsBytes(bytes)};
  WriteSafetensors(folder / "1", {a, b}, {{"k", "v"}, {"j", "w"}});
  WriteSafetensors(folder / "2", {b, a}, {{"j", "w"}, {"k", "v"}});
  EXPECT_EQ(GetFile(folder / "1"), GetFile(folder / "2"));
}

TEST(SafetensorsWriter, RefusesTensorsThatCouldNotBeReadBack) {
  const TemporaryFolder folder;
  const std::string bytes(4, 'x');
  const auto write = [&](std::vector<TensorView> tensors) {
    return [&, tensors] { WriteSafetensors(folder / "a", tensors); };
  };
  EXPECT_THAT(write({{"a", DType::kU8, {5}, AsBytes(bytes)}}), ThrowsMessage<Error>(HasSubstr("'a': got 4 bytes")));
  EXPECT_THAT(write({{"a", DType::kU8, {-4}, AsBytes(bytes)}}), ThrowsMessage<Error>(HasSubstr("'a': got 4 bytes")));
  EXPECT_THAT(write({{"a", DType::kU8, {4}, AsBytes(bytes)}, {"a", DType::kU8, {4}, AsBytes(bytes)}}),
              ThrowsMessage<Error>(HasSubstr("'a': the name is taken")));
  EXPECT_THAT(write({{"__metadata__", DType::kU8, {4}, AsBytes(bytes)}}),
              ThrowsMessage<Error>(HasSubstr("the name is taken")));
  EXPECT_THROW(WriteSafetensors(folder / "a", {{"\xff", DType::kU8, {4}, AsBytes(bytes)}}), Error);
  EXPECT_THAT(folder.Names(), IsEmpty());
}

}  // namespace
}  // namespace tare::safetensors_writer_test
