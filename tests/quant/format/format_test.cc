// SPDX-License-Identifier: Apache-2.0
#include "quant/format/format.h"

#include <gtest/gtest.h>

#include <string>

namespace tare {
namespace {

TEST(Format, RowsStandInTheOrderOfTheNames) {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    EXPECT_EQ(kFormats[i].format, static_cast<Format>(i));
    EXPECT_EQ(&Info(kFormats[i].format), &kFormats[i]);
    EXPECT_EQ(ParseFormat(kFormats[i].name), kFormats[i].format);
  }
  for (const char* unknown : {"", "int5", "INT8", "int8 ", "u16"}) EXPECT_FALSE(ParseFormat(unknown)) << unknown;
}

// Signed codes are symmetric, without the lowest of two's complement; unsigned ones fill their bits.
TEST(Format, CodesFollowFromTheBits) {
  for (const FormatInfo& info : kFormats) {
    if (info.format == Format::kF32) continue;
    const bool is_signed = info.name.starts_with("int");
    EXPECT_EQ(info.name, (is_signed ? "int" : "u") + std::to_string(info.bits));
    EXPECT_EQ(info.max_code, is_signed ? (1 << (info.bits - 1)) - 1 : (1 << info.bits) - 1);
    EXPECT_EQ(info.min_code, is_signed ? -info.max_code : 0);
  }
}

}  // namespace
}  // namespace tare
