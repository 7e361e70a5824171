// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::metadata_test {
namespace {

using namespace gguf;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Bytes = GgufBytes;

// The bytes of one key and value.
std::string One(std::string_view key, uint32_t type, const std::string& value) {
  return Bytes::Text(key) + Bytes::Raw(type) + value;
}

Metadata Read(const std::string& bytes, uint64_t count = 1) {
  Cursor cursor(std::as_bytes(std::span(bytes)), "f.gguf");
  return Metadata(cursor, count);
}

TEST(GgufMetadata, ValuesOfEveryType) {
  const std::string bytes = One("u8", 0, Bytes::Raw<uint8_t>(200)) + One("i8", 1, Bytes::Raw<int8_t>(-3)) +
                            One("u16", 2, Bytes::Raw<uint16_t>(65535)) + One("i16", 3, Bytes::Raw<int16_t>(-300)) +
                            One("u32", 4, Bytes::Raw<uint32_t>(7)) + One("i32", 5, Bytes::Raw<int32_t>(9)) +
                            One("f32", 6, Bytes::Raw(1.5f)) + One("flag", 7, std::string(1, 1)) +
                            One("text", 8, Bytes::Text("hello")) + One("texts", 9, Bytes::Texts({"a", "", "bc"})) +
                            One("u64", 10, Bytes::Raw(~uint64_t{0})) + One("i64", 11, Bytes::Raw<int64_t>(-1)) +
                            One("f64", 12, Bytes::Raw(2.5)) + One("reals", 9, Bytes::Numbers<float>(6, {1, -2}));
  const Metadata m = Read(bytes, 14);
  EXPECT_EQ(m.Unsigned("u8", 255), 200u);
  EXPECT_EQ(m.Real("i8"), -3);
  EXPECT_EQ(m.Unsigned("u16", 1 << 16), 65535u);
  EXPECT_EQ(m.Real("i16"), -300);
  EXPECT_EQ(m.Unsigned("u32", 100), 7u);
  EXPECT_EQ(m.Unsigned("i32", 100), 9u);
  EXPECT_EQ(m.Real("f32"), 1.5);
  EXPECT_EQ(m.Flag("flag"), true);
  EXPECT_EQ(m.Text("text"), "hello");
  EXPECT_THAT(*m.Texts("texts"), ElementsAre("a", "", "bc"));
  EXPECT_EQ(m.Unsigned("u64", ~uint64_t{0}), ~uint64_t{0});
  EXPECT_EQ(m.Real("f64"), 2.5);
  EXPECT_THAT(*m.Reals("reals"), ElementsAre(1, -2));
  EXPECT_EQ(m.Real("none"), std::nullopt);
  EXPECT_THAT(Call([&] { m.Unsigned("i64", 5); }),
              ThrowsMessage<Error>("f.gguf: i64: got -1, expected a number from 0 to 5"));
  EXPECT_THAT(Call([&] { m.Text("u8"); }), ThrowsMessage<Error>("f.gguf: u8: got 200, expected a text"));
  EXPECT_THAT(Call([&] { m.Flag("texts"); }), ThrowsMessage<Error>(HasSubstr("an array of 3 elements")));
}

TEST(GgufMetadata, HostileSizesAreRefusedBeforeTheyAreTrusted) {
  const auto refused = [](const std::string& bytes, const char* why, uint64_t count = 1) {
    EXPECT_THAT(Call([&] { Read(bytes, count); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  const uint64_t huge = uint64_t{1} << 60;
  refused(Bytes::Raw(huge), "a key of the metadata: got 0 bytes to the end of the file, expected 1152921504606846976");
  refused(One("k", 8, Bytes::Raw(~uint64_t{0})), "k: got 0 bytes");
  refused(One("k", 9, Bytes::Raw<uint32_t>(8) + Bytes::Raw(huge)), "got an array of 1152921504606846976 elements");
  refused(One("k", 9, Bytes::Raw<uint32_t>(4) + Bytes::Raw(huge)), "expected at most 0, as 0 bytes are left");
  refused(One("k", 9, Bytes::Raw<uint32_t>(10) + Bytes::Raw(huge * 8)), "got an array of");
  refused(One("a\x1b[2J", 0, "a"), "a key of the metadata: got 'a?[2J' of 5 bytes, expected at most 1024 printable");
  refused(One(std::string(2000, 'k'), 0, "a"), "of 2000 bytes, expected at most 1024");
  refused(One("k", 13, ""), "got a value of type 13, expected 0 to 12");
  refused(One("k", 4, Bytes::Raw<uint16_t>(1)), "k: got 2 bytes to the end of the file, expected 4");
  refused(One("k", 0, "a") + One("k", 0, "b"), "key 'k': occurs twice", 2);
  std::string nested;
  for (int i = 0; i < 100; ++i) nested += Bytes::Raw<uint32_t>(9) + Bytes::Raw<uint64_t>(1);
  refused(One("k", 9, nested), "nested deeper than 4");
}

TEST(GgufMetadata, ArraysMayHoldArrays) {
  const std::string inner = Bytes::Numbers<uint8_t>(0, {1, 2, 3});
  const std::string bytes = One("k", 9, Bytes::Raw<uint32_t>(9) + Bytes::Raw<uint64_t>(2) + inner + inner) +
                            One("after", 4, Bytes::Raw<uint32_t>(5));
  const Metadata m = Read(bytes, 2);
  EXPECT_EQ(m.Unsigned("after", 10), 5u);
  EXPECT_THROW(m.Reals("k"), Error);
}

class GgufArchitectureKeys : public testing::Test {
 protected:
  void Open(const GgufBytes& file) {
    bytes_ = file.Bytes();
    content_ = Parse(std::as_bytes(std::span(bytes_)), "f.gguf");
    keys_.emplace(content_.metadata, "a");
  }
  ArchitectureKeys& keys() { return *keys_; }

 private:
  std::string bytes_;
  Content content_;
  std::optional<ArchitectureKeys> keys_;
};

TEST_F(GgufArchitectureKeys, WhatNobodyAskedForIsRefused) {
  Open(GgufBytes().AddNumber("a.known", 3).AddNumber("a.other", 4).AddNumber("b.other", 5));
  EXPECT_EQ(keys().Number("known"), 3);
  EXPECT_THAT(Call([&] { keys().CheckAllUsed(); }), ThrowsMessage<Error>(HasSubstr("f.gguf: a.other: is not supp")));
  keys().Ignore("other");
  EXPECT_NO_THROW(keys().CheckAllUsed());
}

TEST_F(GgufArchitectureKeys, RealsAreTheShortestNumbers) {
  Open(GgufBytes().AddReal("a.eps", 1e-5f).Add("a.huge", 12, GgufBytes::Raw(1e300)));
  EXPECT_EQ(keys().Real("eps"), 1e-5);  // not 9.99999974737875e-06
  EXPECT_EQ(keys().Real("none"), std::nullopt);
  EXPECT_THAT(Call([&] { keys().Real("huge"); }),
              ThrowsMessage<Error>(HasSubstr("a.huge: got 1e+300, expected a num")));
}

TEST_F(GgufArchitectureKeys, WhatIsNeededMustBeThere) {
  Open(GgufBytes().AddNumber("a.none", 0).AddNumber("a.one", 1));
  EXPECT_EQ(keys().Need("one"), 1);
  EXPECT_THAT(Call([&] { keys().Need("none"); }),
              ThrowsMessage<Error>(HasSubstr("a.none: got 0, expected a positive")));
  EXPECT_THAT(Call([&] { keys().Need("no"); }), ThrowsMessage<Error>(HasSubstr("a.no: got nothing, expected a posit")));
}

TEST_F(GgufArchitectureKeys, OtherValuesThanExpectedAreRefused) {
  Open(GgufBytes().AddNumber("a.n", 2).AddReal("a.r", 0.5f));
  EXPECT_NO_THROW(keys().Expect("n", 2, "why"));
  EXPECT_NO_THROW(keys().Expect("missing", 2, "why"));
  EXPECT_NO_THROW(keys().ExpectReal("r", 0.5));
  EXPECT_THAT(Call([&] { keys().Expect("n", 3, "why"); }),
              ThrowsMessage<Error>(HasSubstr("a.n: got 2, expected 3: why")));
  EXPECT_THAT(Call([&] { keys().ExpectReal("r", 1); }), ThrowsMessage<Error>(HasSubstr("a.r: got 0.5, expected 1 (")));
}

TEST_F(GgufArchitectureKeys, ListsAreOneNumberForAllLayers) {
  Open(GgufBytes()
           .Add("a.same", 9, GgufBytes::Numbers<int32_t>(5, {4, 4}))
           .Add("a.negative", 9, GgufBytes::Numbers<int32_t>(5, {-4, -4})));
  EXPECT_TRUE(keys().IsArray("same"));
  EXPECT_EQ(keys().Reals("same", 2), (std::vector<double>{4, 4}));
  EXPECT_EQ(keys().Reals("none", 2), std::vector<double>{});
  EXPECT_THAT(Call([&] { keys().Reals("same", 3); }), ThrowsMessage<Error>(HasSubstr("a.same: got a list of 2, exp")));
  EXPECT_FALSE(keys().IsArray("none"));
  EXPECT_EQ(keys().Number("same"), 4);
  EXPECT_THAT(Call([&] { keys().Number("negative"); }), ThrowsMessage<Error>(HasSubstr("a.negative: got numbers")));
}

}  // namespace
}  // namespace tare::metadata_test
