// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/container.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/files_of_run.h"
#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::container_test {
namespace {

using namespace gguf;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

void ExpectRefused(const std::string& bytes, const char* why) {
  EXPECT_THAT(Call([&] { Parse(std::as_bytes(std::span(bytes)), "f.gguf"); }), ThrowsMessage<Error>(HasSubstr(why)));
}

GgufBytes TwoTensors() {
  GgufBytes file;
  file.AddText("general.architecture", "llama");
  file.AddFloats("a", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  file.AddTensor("b", {32}, 8, std::string(34, 'x'));
  return file;
}

TEST(GgufContainer, TensorsHaveTheirShapesAndBytes) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string bytes = TwoTensors().Bytes(version);
    const Content content = Parse(std::as_bytes(std::span(bytes)), "f.gguf");
    EXPECT_EQ(content.metadata.Text("general.architecture"), "llama");
    ASSERT_EQ(content.tensors.size(), 2u);
    EXPECT_THAT(content.tensors[0].shape, ElementsAre(2, 3));
    EXPECT_EQ(content.tensors[0].bytes.size(), 24u);
    EXPECT_EQ(content.tensors[1].name, "b");
    EXPECT_EQ(content.tensors[1].type->name, "Q8_0");
    EXPECT_EQ(static_cast<char>(content.tensors[1].bytes.back()), 'x');
  }
}

TEST(GgufContainer, OtherFilesAreRefused) {
  ExpectRefused("", "first bytes: got 0 bytes");
  ExpectRefused("GGML....", "does not begin with GGUF");
  ExpectRefused(TwoTensors().Bytes(1), "version: got 1, expected 2 or 3");
  ExpectRefused(TwoTensors().Bytes(std::byteswap(3u)), "got a big-endian file");
}

TEST(GgufContainer, EveryTruncationIsRefused) {
  const std::string bytes = TwoTensors().Bytes();
  for (size_t size = 0; size + 32 - 2 < bytes.size(); ++size)  // two bytes of 64 are padding after b
    ExpectRefused(bytes.substr(0, size), "f.gguf: ");
}

TEST(GgufContainer, HostileTensorsAreRefused) {
  const auto refused = [](std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset,
                          const char* why) {
    ExpectRefused(TwoTensors().AddTensorAt(name, sizes, type, offset).Bytes(), why);
  };
  const uint64_t huge = uint64_t{1} << 60;
  refused("c", {8}, 0, 96, "expected inside the file's 96 bytes");
  refused("c", {8}, 0, huge * 15, "expected inside");
  refused("c", {8}, 0, ~uint64_t{0} - 31, "expected inside");
  refused("c", {8}, 0, 16, "expected a multiple of general.alignment 32");
  refused("c", {4}, 0, 0, "got bytes that tensor");
  refused("a", {4}, 0, 64, "occurs twice");
  refused("c", {huge, huge}, 0, 0, "expected 1 to 2^56 values");
  refused("c", {~uint64_t{0}}, 0, 0, "expected 1 to 2^56 values");
  refused("c", {0}, 0, 0, "expected 1 to 2^56 values");
  refused("c", {huge / 16}, 0, 0, "expected inside");
  refused("c", {33}, 8, 0, "got rows of 33 values, expected a multiple of Q8_0's block of 32");
  refused("c", {32}, 23, 0, "got IQ4_XS (type 23), expected F32, F16");
  refused("c", {}, 0, 0, "got 0 dimensions");
  refused("c", {1, 1, 1, 1, 1}, 0, 0, "got 5 dimensions");
}

TEST(GgufContainer, AlignmentIsAPowerOfTwo) {
  GgufBytes file;
  ExpectRefused(file.AddNumber("general.alignment", 48).Bytes(), "expected a power of two");
  ExpectRefused(GgufBytes().AddNumber("general.alignment", 0).Bytes(), "expected a power of two");
}

TEST(GgufTensorType, AreNamed) {
  ASSERT_NE(FindType(12), nullptr);
  EXPECT_EQ(FindType(12)->name, "Q4_K");
  EXPECT_EQ(FindType(12)->bytes, 144);
  EXPECT_EQ(TypeText(12), "Q4_K (type 12)");
  EXPECT_EQ(FindType(23), nullptr);
  EXPECT_EQ(TypeText(23), "IQ4_XS (type 23)");
  EXPECT_EQ(TypeText(4), "unknown (type 4)");
  EXPECT_EQ(TypesRead(), "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL or MXFP4");
}

GgufBytes Part(uint16_t number, uint16_t count, uint32_t tensors, const std::string& tensor) {
  GgufBytes file;
  if (number == 0) file.AddText("general.name", "first");
  file.Add("split.no", 2, GgufBytes::Raw(number)).Add("split.count", 2, GgufBytes::Raw(count));
  file.AddNumber("split.tensors.count", tensors);
  file.AddFloats(tensor, {2}, std::vector<float>{1, 2});
  return file;
}

std::string NameOf(int number, int count) { return Formatted("m-{:05}-of-{:05}.gguf", number, count); }

TEST(GgufParts, AnyPartStandsForAll) {
  const TemporaryFolder folder;
  std::string lines;
  for (uint16_t i = 0; i < 3; ++i) {
    const std::string name = NameOf(i + 1, 3);
    PutFile(folder / name, Part(i, 3, 3, Formatted("t{}", i)).Bytes());
    lines += Sha256OfFile(folder / name) + "  " + name + "\n";
  }
  for (int given = 1; given <= 3; ++given) {
    const Parts parts(folder / NameOf(given, 3));
    EXPECT_EQ(parts.tensors().size(), 3u);
    EXPECT_EQ(parts.metadata().Text("general.name"), "first");
    EXPECT_EQ(parts.ContentHash(), Sha256Hex(std::as_bytes(std::span(lines))));
    EXPECT_NO_THROW(parts.Release(parts.tensors()[2].bytes));
    EXPECT_EQ(OpenFirst(folder / NameOf(given, 3)).content.metadata.Text("general.name"), "first");
  }
}

TEST(GgufParts, AreInputsOfARun) {
  const TemporaryFolder folder;
  for (uint16_t i = 0; i < 2; ++i) PutFile(folder / NameOf(i + 1, 2), Part(i, 2, 2, Formatted("t{}", i)).Bytes());
  const FilesOfRun run;
  const Parts parts(folder / NameOf(1, 2));
  EXPECT_THAT(Call([&] { WriteFileAtomically(folder / NameOf(2, 2), "x"); }),
              ThrowsMessage<Error>(HasSubstr("m-00002-of-00002.gguf: is both an input and an output")));
}

TEST(GgufParts, OfOneFileHaveItsHash) {
  const TemporaryFolder folder;
  PutFile(folder / "m.gguf", GgufBytes().AddFloats("t", {1}, std::vector<float>{1}).Bytes());
  EXPECT_EQ(Parts(folder / "m.gguf").ContentHash(), Sha256OfFile(folder / "m.gguf"));
}

TEST(GgufParts, ThatDoNotBelongTogetherAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& why) {
    EXPECT_THAT(Call([&] { Parts parts(folder / name); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  PutFile(folder / NameOf(1, 2), Part(0, 2, 2, "a").Bytes());
  refused(NameOf(1, 2), "m-00002-of-00002.gguf: no such file");
  PutFile(folder / NameOf(2, 2), Part(0, 2, 2, "b").Bytes());
  refused(NameOf(1, 2), "got part 1 of 2, expected part 2 of 2");
  PutFile(folder / NameOf(2, 2), Part(1, 2, 2, "a").Bytes());
  refused(NameOf(1, 2), "tensor 'a': is in another part too");
  PutFile(folder / NameOf(2, 2), Part(1, 2, 2, "b").Bytes());
  PutFile(folder / NameOf(1, 2), Part(0, 2, 5, "a").Bytes());
  refused(NameOf(1, 2), "split.tensors.count: got 2 tensors in 2 parts, expected 5");
  PutFile(folder / "other.gguf", Part(0, 2, 2, "a").Bytes());
  refused("other.gguf", "expected a name that ends in -00001-of-00002.gguf");
  PutFile(folder / NameOf(1, 1), Part(3, 2, 2, "a").Bytes());
  refused(NameOf(1, 1), "split.no: got 3, expected less than split.count 2");
}

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
}  // namespace tare::container_test
