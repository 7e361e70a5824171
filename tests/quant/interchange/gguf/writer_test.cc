// SPDX-License-Identifier: Apache-2.0
// What the writers write is what the readers read.

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/mapped_file.h"
#include "quant/interchange/gguf/container.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::writer_test {
namespace {

using namespace gguf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

NewTensor Filled(const char* name, std::vector<int64_t> shape, char with) {
  return {name, FindType("F32"), std::move(shape),
          [with](std::span<std::byte> bytes) { std::memset(bytes.data(), with, bytes.size()); }};
}

TEST(GgufContainerWriter, KeysAndTensorsAreReadBack) {
  const TemporaryFolder folder;
  MetadataWriter out("m");
  out.Text("general.architecture", "llama");
  out.Number("a", 0xffffffff);
  out.Real("b", 0.1);
  out.Flag("c", true);
  out.Texts("d", std::vector<std::string>{"x", "", "\u2581y"});
  out.Reals("e", std::vector<float>{1.5f, -2});
  out.Integers("f", std::vector<int32_t>{3, -1});
  const std::vector<NewTensor> tensors{Filled("one", {3}, 1), Filled("two", {5, 2}, 2)};
  std::vector<int64_t> seen;
  WriteGguf(folder / "f.gguf", out, tensors, [&](int64_t done, int64_t total) {
    seen.push_back(done);
    EXPECT_EQ(total, 12 + 40);
  });
  EXPECT_THAT(seen, ElementsAre(12, 52));
  const MappedFile file(folder / "f.gguf");
  const Content content = Parse(file.bytes(), "f.gguf");
  EXPECT_EQ(content.metadata.values().size(), 7u);
  EXPECT_EQ(content.metadata.Text("general.architecture"), "llama");
  EXPECT_EQ(content.metadata.Unsigned("a", ~0u), 0xffffffffu);
  EXPECT_EQ(content.metadata.Real("b"), double{0.1f});
  EXPECT_EQ(content.metadata.Flag("c"), true);
  EXPECT_THAT(*content.metadata.Texts("d"), ElementsAre("x", "", "\u2581y"));
  EXPECT_THAT(*content.metadata.Reals("e"), ElementsAre(1.5, -2));
  EXPECT_THAT(*content.metadata.Reals("f"), ElementsAre(3, -1));
  ASSERT_EQ(content.tensors.size(), 2u);
  EXPECT_THAT(content.tensors[1].shape, ElementsAre(5, 2));
  EXPECT_EQ(content.tensors[1].name, "two");
  EXPECT_EQ(content.tensors[0].bytes.size(), 12u);
  EXPECT_EQ(content.tensors[0].bytes.back(), std::byte{1});
  EXPECT_EQ(content.tensors[1].bytes.front(), std::byte{2});
  EXPECT_EQ(content.tensors[1].bytes.back(), std::byte{2});
}

TEST(GgufContainerWriter, NothingStaysOfAFileThatFails) {
  const TemporaryFolder folder;
  const MetadataWriter out("m");
  const std::vector<NewTensor> tensors{Filled("one", {3}, 1),
                                       {"two", FindType("F32"), {1}, [](std::span<std::byte>) { Fail("two: bad"); }}};
  EXPECT_THROW(WriteGguf(folder / "f.gguf", out, tensors, {}), Error);
  EXPECT_THAT(folder.Names(), testing::IsEmpty());
  const std::vector<NewTensor> named{Filled(std::string(64, 'n').c_str(), {1}, 0)};
  EXPECT_THAT(Call([&] { WriteGguf(folder / "f.gguf", out, named, {}); }),
              ThrowsMessage<Error>(HasSubstr("got a name of 64 bytes, expected at most 63")));
}

TEST(GgufMetadataWriter, KeysAreWrittenOnce) {
  gguf::MetadataWriter out("m");
  out.Number("a", 1);
  EXPECT_THAT(Call([&] { out.Flag("a", true); }),
              testing::ThrowsMessage<Error>("m: key 'a': got it twice, expected once"));
  EXPECT_EQ(out.count(), 1u);
}

TEST(GgufMetadataWriter, NumbersTakeFourBytes) {
  gguf::MetadataWriter out("m");
  EXPECT_THAT(Call([&] { out.Number("b", -1); }),
              testing::ThrowsMessage<Error>("m: key 'b': got -1, expected 0 to 2^32 - 1"));
  EXPECT_THROW(out.Number("b", int64_t{1} << 32), Error);
  out.Number("b", (int64_t{1} << 32) - 1);
  // The key, its type, the number.
  EXPECT_EQ(out.bytes(), std::string("\1\0\0\0\0\0\0\0b\4\0\0\0\xff\xff\xff\xff", 17));
}

TEST(GgufMetadataWriter, FlagsTakeAByteEach) {
  gguf::MetadataWriter out("m");
  out.Flags("b", {true, false});
  // The key, an array, of flags, of two.
  EXPECT_EQ(out.bytes(), std::string("\1\0\0\0\0\0\0\0b\x09\0\0\0\7\0\0\0\2\0\0\0\0\0\0\0\1\0", 27));
}

}  // namespace
}  // namespace tare::writer_test
