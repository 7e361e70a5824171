// SPDX-License-Identifier: Apache-2.0
#include "quant/file/safetensors.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/safetensors_bytes.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::safetensors_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::ThrowsMessage;

// An entry 'x' with these members, beside a sound one.
std::string WithEntry(const std::string& members) {
  return R"({"sound":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"x":{)" + members + "}}";
}

void ExpectHeaderRefused(const std::string& text, const std::string& why) {
  EXPECT_THAT(Call([&] { ParseSafetensors(AsBytes(SafetensorsBytes(text, 8)), "file"); }),
              ThrowsMessage<Error>(AllOf(StartsWith("file: "), HasSubstr(why))))
      << text;
}

TEST(SafetensorsHeader, ReadsEntriesInAnyOrderOfTheirKeys) {
  const std::string file = SafetensorsBytes(
      "{\"b\":{\"data_offsets\":[4,28],\"shape\":[2,3],\"dtype\":\"F32\"},\n\t\"a\":{\"dtype\":\"BF16\",\"shape\":[2],"
      "\"data_offsets\":[0,4]},"
      "\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}}   ",
      28);
  const SafetensorsContent content = ParseSafetensors(AsBytes(file), "file");
  ASSERT_EQ(content.tensors.size(), 2u);
  EXPECT_EQ(content.tensors[1].dtype, DType::kF32);
  EXPECT_THAT(content.tensors[1].shape, ElementsAre(2, 3));
  EXPECT_TRUE(std::ranges::equal(content.tensors[1].bytes, AsBytes(file).last(24)));
  EXPECT_EQ(content.tensors[0].dtype, DType::kBF16);
  EXPECT_EQ(content.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"", ""}}));
}

TEST(SafetensorsHeader, MayHaveNoMetadata) {
  EXPECT_TRUE(ParseSafetensors(AsBytes(SafetensorsBytes(R"({"__metadata__":{}})", 0)), "file").metadata.empty());
}

TEST(SafetensorsHeader, BeginsWithABrace) {
  ExpectHeaderRefused("", "does not begin with '{'");
  ExpectHeaderRefused(" {}", "does not begin with '{'");
  ExpectHeaderRefused("\xef\xbb\xbf{}", "does not begin with '{'");
  ExpectHeaderRefused("[]", "does not begin with '{'");
}

TEST(SafetensorsHeader, IsJson) {
  ExpectHeaderRefused("{", "header: not valid JSON");
  ExpectHeaderRefused("{} {}", "not valid JSON");
  ExpectHeaderRefused("{}x", "not valid JSON");
  ExpectHeaderRefused("{\"\xff\":{}}", "not valid JSON");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[01],"data_offsets":[4,8])"), "not valid JSON");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[1e999],"data_offsets":[4,8])"), "not valid JSON");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[NaN],"data_offsets":[4,8])"), "not valid JSON");
  ExpectHeaderRefused(std::string("{}\0", 3), "NUL");
  ExpectHeaderRefused(std::string("{}\0{", 4), "NUL");
}

TEST(SafetensorsHeader, NothingComesTwice) {
  ExpectHeaderRefused(
      R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
      "'a' twice");
  ExpectHeaderRefused(
      R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
      "'a' twice");
  ExpectHeaderRefused(R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' twice");
  ExpectHeaderRefused(R"({"__metadata__":{"k":"1","k":"1"}})", "'k' twice");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","dtype":"F32","shape":[],"data_offsets":[4,8])"),
                      "header: got the key 'dtype' twice");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"shape":[],"data_offsets":[4,8])"),
                      "header: got the key 'shape' twice");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4,8],"data_offsets":[4,8])"),
                      "'data_offsets' twice");
}

TEST(SafetensorsHeader, EntriesHaveThreeKeysAndNoOther) {
  ExpectHeaderRefused(WithEntry(""), "tensor 'x': has no dtype");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","data_offsets":[4,8])"), "tensor 'x': has no shape");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[])"), "tensor 'x': has no data_offsets");
  for (const std::string value : {"1", "\"a\"", "[]", "{}", "null", "true", "1.5", "-1"}) {
    ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4,8],"more":)" + value),
                        "tensor 'x': 'more': got");
    ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4,8],"more":)" + value),
                        "expected no such key");
  }
}

TEST(SafetensorsHeader, DtypeIsOneOfTheNames) {
  ExpectHeaderRefused(WithEntry(R"("dtype":"F31","shape":[],"data_offsets":[4,8])"), "tensor 'x': got dtype 'F31'");
  for (const std::string value : {"1", "[]", "{}", "null", "true", "1.5", "-1"}) {
    ExpectHeaderRefused(WithEntry(R"("shape":[],"data_offsets":[4,8],"dtype":)" + value), "tensor 'x': got dtype");
  }
}

TEST(SafetensorsHeader, ShapeIsOfNaturalNumbers) {
  for (const std::string value : {"1", "\"a\"", "{}", "null", "[-1]", "[1.0]", "[1e3]", "[\"1\"]", "[null]", "[true]",
                                  "[[1]]", "[{}]", "[9223372036854775808]", "[18446744073709551616]"}) {
    ExpectHeaderRefused(WithEntry(R"("dtype":"F32","data_offsets":[4,8],"shape":)" + value), "'x'");
  }
  const std::string header = WithEntry(R"("dtype":"F32","data_offsets":[4,4],"shape":[9223372036854775807,0])");
  EXPECT_NO_THROW(ParseSafetensors(AsBytes(SafetensorsBytes(header, 4)), "file"));
}

TEST(SafetensorsHeader, OffsetsAreTwoNaturalNumbers) {
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[])"), "got 0 data_offsets, expected 2");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4])"), "got 1 data_offsets, expected 2");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4,8,8])"),
                      "got 3 data_offsets, expected 2");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[-4,8])"), "data_offsets: got -4");
  ExpectHeaderRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4.0,8])"), "data_offsets: got 4.0");
}

TEST(SafetensorsHeader, EntriesAreObjects) {
  for (const std::string value : {"1", "\"a\"", "[]", "null", "true", "1.5", "-1"}) {
    ExpectHeaderRefused("{\"x\":" + value + "}", "tensor 'x': got");
  }
}

TEST(SafetensorsHeader, MetadataAreStrings) {
  for (const std::string value : {"1", "[]", "{}", "null", "true", "1.5", "-1"}) {
    ExpectHeaderRefused("{\"__metadata__\":{\"k\":" + value + "}}", "'__metadata__': 'k': got");
    ExpectHeaderRefused("{\"__metadata__\":" + (value == "{}" ? "0" : value) + "}", "'__metadata__': got");
  }
}

TEST(SafetensorsHeader, DepthIsBounded) {
  ExpectHeaderRefused("{\"a\":" + std::string(1'000'000, '['), "got JSON nested 32 deep");
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"a\":{";
  ExpectHeaderRefused(objects, "got JSON nested 32 deep");
}

constexpr std::string_view kAb = R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                 R"("a":{"dtype":"U8","shape":[5],"data_offsets":[24,29]}})";

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape, int64_t begin,
                  int64_t end) {
  return Formatted(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

void ExpectRefused(const std::string& file, const std::string& why, const std::string& more = "") {
  EXPECT_THAT(Call([&] { ParseSafetensors(AsBytes(file), "file"); }),
              ThrowsMessage<Error>(AllOf(StartsWith("file: "), HasSubstr(why), HasSubstr(more))));
}

bool SameContent(const SafetensorsContent& a, const SafetensorsContent& b) {
  return a.metadata == b.metadata &&
         std::ranges::equal(a.tensors, b.tensors, [](const TensorView& x, const TensorView& y) {
           return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && std::ranges::equal(x.bytes, y.bytes);
         });
}

TEST(Safetensors, ViewsAreWhereTheHeaderSays) {
  const TemporaryFolder folder;
  const std::string bytes = SafetensorsBytes(kAb, 29);
  PutFile(folder / "a.safetensors", bytes);
  Safetensors opened(folder / "a.safetensors");
  const Safetensors file(std::move(opened));
  EXPECT_THAT(file.names(), ElementsAre("a", "b"));
  const TensorView& b = *file.Find("b");
  EXPECT_EQ(b.dtype, DType::kF32);
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
  EXPECT_EQ(b.elements(), 6u);
  EXPECT_TRUE(std::ranges::equal(b.bytes, AsBytes(bytes).subspan(8 + kAb.size(), 24)));
  EXPECT_TRUE(std::ranges::equal(file.Find("a")->bytes, AsBytes(bytes).subspan(8 + kAb.size() + 24, 5)));
  EXPECT_EQ(file.Find("c"), nullptr);
  EXPECT_EQ(file.Find(""), nullptr);
  file.file().Release(b.bytes);
  EXPECT_EQ(b.bytes[0], std::byte{1});
}

TEST(Safetensors, AcceptsNoTensorsAndEmptyOnes) {
  EXPECT_TRUE(ParseSafetensors(AsBytes(SafetensorsBytes("{}", 0)), "file").tensors.empty());
  const std::string header = "{" + Entry("z", "F32", "[0,7]", 0, 0) + "," + Entry("a", "F32", "[0]", 4, 4) + "," +
                             Entry("m", "F32", "[]", 0, 4) + "}   ";
  const SafetensorsContent content = ParseSafetensors(AsBytes(SafetensorsBytes(header, 4)), "file");
  ASSERT_EQ(content.tensors.size(), 3u);
  EXPECT_EQ(content.tensors[0].elements(), 0u);
  EXPECT_EQ(content.tensors[1].elements(), 1u);
}

TEST(Safetensors, TellsWhatIsCutShort) {
  const std::string whole = SafetensorsBytes(kAb, 29);
  for (size_t size = 0; size < 8; ++size)
    ExpectRefused(whole.substr(0, size), Formatted("got {} bytes, too few", size));
  for (size_t size = 8; size < 8 + kAb.size(); ++size)
    ExpectRefused(whole.substr(0, size), "truncated: the header alone needs");
  for (size_t missing = 1; missing <= 29; ++missing) {
    ExpectRefused(whole.substr(0, whole.size() - missing), Formatted("truncated: the file is {} bytes short", missing),
                  "downloading it again");
  }
}

TEST(Safetensors, TellsWhatIsTooLong) {
  ExpectRefused(SafetensorsBytes(kAb, 30), "has 1 more bytes after its last tensor");
  ExpectRefused(SafetensorsBytes("{}", 3), "has 3 more bytes");
}

TEST(Safetensors, BoundsTheHeader) {
  const auto with_length = [](uint64_t length) {
    std::string file = SafetensorsBytes(kAb, 29);
    std::memcpy(file.data(), &length, sizeof length);
    return file;
  };
  ExpectRefused(with_length(100'000'001), "header of 100000001 bytes, expected at most 100000000");
  ExpectRefused(with_length(UINT64_MAX), "header of 18446744073709551615 bytes");
  ExpectRefused(with_length(100'000'000), "truncated: the header alone needs 100000008 bytes");
  ExpectRefused(with_length(0), "does not begin with '{'");
  ExpectRefused(with_length(kAb.size() - 1), "not valid JSON");
}

TEST(Safetensors, BytesFollowEachOther) {
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "U8", "[4]", 1, 5) + "}", 5),
                "tensor 'a': leaves a hole: begins at byte 1, expected 0");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "U8", "[4]", 0, 4) + "," + Entry("b", "U8", "[2]", 5, 7) + "}", 7),
                "tensor 'b': leaves a hole: begins at byte 5, expected 4, where 'a' ends");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "U8", "[4]", 0, 4) + "," + Entry("b", "U8", "[2]", 3, 5) + "}", 5),
                "tensor 'b': overlaps: begins at byte 3, expected 4, where 'a' ends");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "U8", "[4]", 0, 4) + "," + Entry("b", "U8", "[4]", 0, 4) + "}", 4),
                "overlaps");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "U8", "[8]", 0, 8) + "," + Entry("b", "U8", "[0]", 4, 4) + "}", 8),
                "'b': overlaps");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "U8", "[0]", 5, 3) + "}", 5),
                "tensor 'a': got data_offsets [5, 3], expected begin <= end");
}

TEST(Safetensors, SizesAgree) {
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "F32", "[2,3]", 0, 23) + "}", 23),
                "tensor 'a': got data_offsets for 23 bytes, expected 24 for F32 of shape [2, 3]");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "F16", "[]", 0, 0) + "}", 0),
                "got data_offsets for 0 bytes, expected 2");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "F32", "[4294967296,4294967296]", 0, 0) + "}", 0),
                "too large for any file");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "F32", "[9223372036854775807]", 0, 4) + "}", 4),
                "too large for any file");
  // 2^61 values of 32 bits are 2^66 bits: 0 in 64-bit arithmetic that is not checked.
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "F32", "[2305843009213693952]", 0, 0) + "}", 0),
                "too large for any file");
}

TEST(Safetensors, NarrowTypesFillBytes) {
  EXPECT_EQ(ParseSafetensors(AsBytes(SafetensorsBytes("{" + Entry("a", "F4", "[2,3]", 0, 3) + "}", 3)), "file")
                .tensors[0]
                .elements(),
            6u);
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "F4", "[3]", 0, 2) + "}", 2),
                "3 values of 4 bits, expected a number that fills whole bytes");
  ExpectRefused(SafetensorsBytes("{" + Entry("a", "F6_E2M3", "[2]", 0, 2) + "}", 2), "2 values of 6 bits");
}

TEST(Safetensors, NamesTheFile) {
  const TemporaryFolder folder;
  PutFile(folder / "cut.safetensors", SafetensorsBytes(kAb, 28));
  EXPECT_THAT(
      Call([&] { Safetensors(folder / "cut.safetensors"); }),
      ThrowsMessage<Error>(AllOf(StartsWith((folder / "cut.safetensors").string()), HasSubstr("1 bytes short"))));
  EXPECT_THAT(Call([&] { Safetensors(folder / "none.safetensors"); }), ThrowsMessage<Error>(HasSubstr("no such file")));
}

// Damage is refused or does not matter: what is read is then what was there, but for bytes that carry no rule (names,
// data, and dtypes or shapes of the same size).
TEST(Safetensors, AnyCutOrFlippedBitIsRefusedOrHarmless) {
  const std::string whole = SafetensorsBytes(kAb, 29);
  const SafetensorsContent expected = ParseSafetensors(AsBytes(whole), "file");
  std::mt19937 random(7);
  size_t refused = 0, accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string file = whole;
    const int flips = 1 + static_cast<int>(random() % 3);
    for (int f = 0; f < flips; ++f) file[random() % (8 + kAb.size())] ^= static_cast<char>(1 << random() % 8);
    try {
      const SafetensorsContent content = ParseSafetensors(AsBytes(file), "file");
      ASSERT_EQ(content.tensors.size() + content.metadata.size(), expected.tensors.size()) << file;
      size_t bytes = 0;
      for (const TensorView& tensor : content.tensors) {
        ASSERT_EQ(ByteCount(tensor.dtype, tensor.shape), static_cast<int64_t>(tensor.bytes.size())) << file;
        bytes += tensor.bytes.size();
      }
      ASSERT_EQ(bytes, 29u) << file;
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(accepted, 100u);  // flips in names
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(ParseSafetensors(AsBytes(whole.substr(0, size)), "file"), Error) << size;
  EXPECT_TRUE(SameContent(ParseSafetensors(AsBytes(whole), "file"), expected));
}

TEST(Safetensors, ReadsWhatTheReferenceWrote) {
  const Safetensors file(TARE_SOURCE_DIR "/tests/data/golden/llama-mha/expected.safetensors");
  ASSERT_NE(file.Find("input_ids"), nullptr);
  EXPECT_EQ(file.Find("input_ids")->dtype, DType::kI64);
  EXPECT_THAT(file.Find("input_ids")->shape, ElementsAre(2, 37));
}

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
}  // namespace tare::safetensors_test
