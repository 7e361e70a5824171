// SPDX-License-Identifier: Apache-2.0
#include "quant/file/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"

namespace tare {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

// An entry 'x' with these members, beside a sound one.
std::string WithEntry(const std::string& members) {
  return R"({"sound":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"x":{)" + members + "}}";
}

void ExpectRefused(const std::string& text, const std::string& why) {
  EXPECT_THAT([&] { ParseSafetensorsHeader(text, "file"); },
              ThrowsMessage<Error>(AllOf(StartsWith("file: "), HasSubstr(why))))
      << text;
}

TEST(SafetensorsHeader, ReadsEntriesInAnyOrderOfTheirKeys) {
  const SafetensorsHeader header = ParseSafetensorsHeader(
      "{\"b\":{\"data_offsets\":[4,28],\"shape\":[2,3],\"dtype\":\"F32\"},\n\t\"a\":{\"dtype\":\"BF16\",\"shape\":[],"
      "\"data_offsets\":[0,2]},"
      "\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}}   ",
      "file");
  ASSERT_EQ(header.entries.size(), 2u);
  EXPECT_EQ(header.entries.at("b").dtype, DType::kF32);
  EXPECT_THAT(*header.entries.at("b").shape, ElementsAre(2, 3));
  EXPECT_THAT(*header.entries.at("b").data_offsets, ElementsAre(4, 28));
  EXPECT_EQ(header.entries.at("a").dtype, DType::kBF16);
  EXPECT_TRUE(header.entries.at("a").shape->empty());
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"", ""}}));
}

TEST(SafetensorsHeader, MayBeEmpty) {
  EXPECT_TRUE(ParseSafetensorsHeader("{}", "file").entries.empty());
  EXPECT_TRUE(ParseSafetensorsHeader(R"({"__metadata__":{}})", "file").metadata.empty());
}

TEST(SafetensorsHeader, BeginsWithABrace) {
  ExpectRefused("", "does not begin with '{'");
  ExpectRefused(" {}", "does not begin with '{'");
  ExpectRefused("\xef\xbb\xbf{}", "does not begin with '{'");
  ExpectRefused("[]", "does not begin with '{'");
}

TEST(SafetensorsHeader, IsJson) {
  ExpectRefused("{", "not valid JSON at its byte");
  ExpectRefused("{} {}", "not valid JSON");
  ExpectRefused("{}x", "not valid JSON");
  ExpectRefused("{\"\xff\":{}}", "not valid JSON");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[01],"data_offsets":[4,8])"), "not valid JSON");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[1e999],"data_offsets":[4,8])"), "not valid JSON");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[NaN],"data_offsets":[4,8])"), "not valid JSON");
  ExpectRefused(std::string("{}\0", 3), "NUL");
  ExpectRefused(std::string("{}\0{", 4), "NUL");
}

TEST(SafetensorsHeader, NothingComesTwice) {
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
      "'a' twice");
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
      "'a' twice");
  ExpectRefused(R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' twice");
  ExpectRefused(R"({"__metadata__":{"k":"1","k":"1"}})", "'k' twice");
  ExpectRefused(WithEntry(R"("dtype":"F32","dtype":"F32","shape":[],"data_offsets":[4,8])"),
                "tensor 'x': has the key 'dtype' twice");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"shape":[],"data_offsets":[4,8])"),
                "tensor 'x': has the key 'shape' twice");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4,8],"data_offsets":[4,8])"),
                "'data_offsets' twice");
}

TEST(SafetensorsHeader, EntriesHaveThreeKeysAndNoOther) {
  ExpectRefused(WithEntry(""), "tensor 'x': has no dtype");
  ExpectRefused(WithEntry(R"("dtype":"F32","data_offsets":[4,8])"), "tensor 'x': has no shape");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[])"), "tensor 'x': has no data_offsets");
  for (const std::string value : {"1", "\"a\"", "[]", "{}", "null", "true", "1.5", "-1"}) {
    ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4,8],"more":)" + value),
                  "tensor 'x': 'more': got");
    ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4,8],"more":)" + value),
                  "expected no such key");
  }
}

TEST(SafetensorsHeader, DtypeIsOneOfTheNames) {
  ExpectRefused(WithEntry(R"("dtype":"F31","shape":[],"data_offsets":[4,8])"), "tensor 'x': got dtype 'F31'");
  for (const std::string value : {"1", "[]", "{}", "null", "true", "1.5", "-1"}) {
    ExpectRefused(WithEntry(R"("shape":[],"data_offsets":[4,8],"dtype":)" + value), "tensor 'x': 'dtype': got");
  }
}

TEST(SafetensorsHeader, ShapeIsOfNaturalNumbers) {
  for (const std::string value : {"1", "\"a\"", "{}", "null", "[-1]", "[1.0]", "[1e3]", "[\"1\"]", "[null]", "[true]",
                                  "[[1]]", "[{}]", "[9223372036854775808]", "[18446744073709551616]"}) {
    ExpectRefused(WithEntry(R"("dtype":"F32","data_offsets":[4,8],"shape":)" + value), "'x'");
  }
  EXPECT_NO_THROW(ParseSafetensorsHeader(
      WithEntry(R"("dtype":"F32","data_offsets":[4,8],"shape":[9223372036854775807,0])"), "file"));
}

TEST(SafetensorsHeader, OffsetsAreTwoNaturalNumbers) {
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[])"), "got 0 data_offsets, expected 2");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4])"), "got 1 data_offsets, expected 2");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4,8,8])"), "got 3 data_offsets, expected 2");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[-4,8])"), "'data_offsets': got -4");
  ExpectRefused(WithEntry(R"("dtype":"F32","shape":[],"data_offsets":[4.0,8])"), "'data_offsets': got 4.0");
}

TEST(SafetensorsHeader, EntriesAreObjects) {
  for (const std::string value : {"1", "\"a\"", "[]", "null", "true", "1.5", "-1"}) {
    ExpectRefused("{\"x\":" + value + "}", "header: 'x': got");
  }
}

TEST(SafetensorsHeader, MetadataAreStrings) {
  for (const std::string value : {"1", "[]", "{}", "null", "true", "1.5", "-1"}) {
    ExpectRefused("{\"__metadata__\":{\"k\":" + value + "}}", "__metadata__: 'k': got");
    ExpectRefused("{\"__metadata__\":" + (value == "{}" ? "0" : value) + "}", "'__metadata__': got");
  }
}

TEST(SafetensorsHeader, DepthEndsAtOnce) {
  ExpectRefused("{\"a\":" + std::string(1'000'000, '['), "'a': got an array");
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"a\":{";
  ExpectRefused(objects, "got an object");
}

}  // namespace
}  // namespace tare
