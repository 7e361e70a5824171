// SPDX-License-Identifier: Apache-2.0
// Fields of every type, drawn out byte by byte, and bytes that are none.
#include "quant/file/wire_format.h"

#include <gtest/gtest.h>

namespace tare::wire_format_test {
namespace {

TEST(WireFormat, FieldsOfEveryType) {
  WireReader fields(
      std::string_view("\x08\x96\x01\x11"
                       "12345678\x1a\x02hi\x25"
                       "abcd",
                       21));
  WireField field;
  ASSERT_TRUE(fields.Next(&field));
  EXPECT_EQ(field.number, 1u);
  EXPECT_EQ(field.value, 150u);  // 0x16 + 128
  ASSERT_TRUE(fields.Next(&field));
  EXPECT_EQ(field.number, 2u);
  EXPECT_EQ(field.bytes, "12345678");
  ASSERT_TRUE(fields.Next(&field));
  EXPECT_EQ(field.number, 3u);
  EXPECT_EQ(field.bytes, "hi");
  ASSERT_TRUE(fields.Next(&field));
  EXPECT_EQ(field.number, 4u);
  EXPECT_EQ(field.bytes, "abcd");
  EXPECT_FALSE(fields.Next(&field));
  EXPECT_FALSE(fields.damaged());
}

TEST(WireFormat, DamageIsSeen) {
  for (const std::string_view bytes :
       {std::string_view("\x08"), std::string_view("\x0b\x00", 2), std::string_view("\x1a\x03hi"),
        std::string_view("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")}) {
    WireReader fields(bytes);
    WireField field;
    while (fields.Next(&field)) {
    }
    EXPECT_TRUE(fields.damaged());
  }
}

}  // namespace
}  // namespace tare::wire_format_test
