// SPDX-License-Identifier: Apache-2.0
// A model drawn out byte by byte, and bytes that are none.
#include "quant/file/piece_model.h"

#include <string>

#include <gtest/gtest.h>

namespace tare::piece_model_test {
namespace {

using namespace std::string_literals;

TEST(PieceModel, FieldsOfEveryType) {
  const std::string bytes =
      "\x0a\x0b\x0a\x02hi\x15\0\0\x80\x3f\x18\x03"                                        // a piece: "hi", 1.0, control
      "\x0a\x00"                                                                          // one of defaults
      "\x12\x12\x18\x02\xc0\x02\x96\x01\xd8\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  // BPE, <unk> 150, pad -1
      "\x1a\x06\x12\x02xy\x20\x00"                                                        // a table, spaces stay
      "\x31"
      "12345678"s;  // a field unknown here
  const PieceModel model = ReadPieceModel(bytes);
  EXPECT_FALSE(model.damaged);
  ASSERT_EQ(model.pieces.size(), 2u);
  EXPECT_EQ(model.pieces[0].text, "hi");
  EXPECT_EQ(model.pieces[0].score, 1.0f);
  EXPECT_EQ(model.pieces[0].kind, 3);
  EXPECT_EQ(model.pieces[1].text, "");
  EXPECT_EQ(model.pieces[1].kind, 1);
  EXPECT_EQ(model.type, 2);
  EXPECT_EQ(model.unknown, 150);  // 0x16 + 128
  EXPECT_EQ(model.begin, 1);
  EXPECT_EQ(model.pad, -1);
  EXPECT_EQ(model.character_map, "xy");
  EXPECT_FALSE(model.removes_extra_spaces);
  EXPECT_TRUE(model.adds_space_in_front);
}

TEST(PieceModel, DamageIsSeen) {
  EXPECT_FALSE(ReadPieceModel("").damaged);
  for (const std::string& bytes :
       {"\x08"s, "\x0b\x00"s, "\x1a\x03hi"s, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s, "\x0a\x02\x0a\x05"s})
    EXPECT_TRUE(ReadPieceModel(bytes).damaged);
}

}  // namespace
}  // namespace tare::piece_model_test
