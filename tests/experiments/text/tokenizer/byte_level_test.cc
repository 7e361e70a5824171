// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/byte_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare::byte_level_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(ByteLevel, EveryByteRoundTrips) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(FromAlphabet(ToAlphabet(bytes)), bytes);
  EXPECT_EQ(ToAlphabet(" \n"), "\xc4\xa0\xc4\x8a");
  EXPECT_EQ(ToAlphabet("\xad"), "\xc5\x83");  // the last of those moved
  EXPECT_EQ(FromAlphabet("a b"), std::nullopt);
  EXPECT_EQ(FromAlphabet("\xe6\x97\xa5"), std::nullopt);
}

}  // namespace
}  // namespace tare::byte_level_test
