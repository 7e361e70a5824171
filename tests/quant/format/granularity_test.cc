// SPDX-License-Identifier: Apache-2.0
#include "quant/format/granularity.h"

#include <gtest/gtest.h>

namespace tare::granularity_test {
namespace {

using Kind = Granularity::Kind;

TEST(Granularity, NamesAreAsDocumented) {
  EXPECT_EQ(Name({Kind::kTensor}), "tensor");
  EXPECT_EQ(Name({Kind::kHead}), "head");
  EXPECT_EQ(Name({Kind::kRow}), "row");
  EXPECT_EQ(Name({Kind::kToken}), "token");
  EXPECT_EQ(Name({Kind::kHeads}), "heads");
  EXPECT_EQ(Name({Kind::kChannel}), "channel");
  EXPECT_EQ(Name({Kind::kGroup, 64}), "group64");
  EXPECT_EQ(Name({Kind::kBlock, 1}), "block1");
  EXPECT_EQ(Name({Kind::kBlockChannel, 65536}), "block65536.channel");
  EXPECT_EQ(Spelling(Kind::kBlockChannel), "block<N>.channel");
}

TEST(Granularity, ParsesWhatItNames) {
  for (const Kind kind : {Kind::kTensor, Kind::kHead, Kind::kRow, Kind::kToken, Kind::kHeads, Kind::kChannel}) {
    EXPECT_EQ(ParseGranularity(Name({kind})), Granularity{kind});
  }
  for (const Kind kind : {Kind::kGroup, Kind::kBlock, Kind::kBlockChannel}) {
    for (const int n : {1, 9, 32, 64, 65535, 65536})
      EXPECT_EQ(ParseGranularity(Name({kind, n})), (Granularity{kind, n}));
  }
}

TEST(Granularity, RefusesEverythingElse) {
  for (const char* text : {"",         "tensor1",         "Tensor",         "tensors",
                           " tensor",  "group",           "group0",         "group064",
                           "group-1",  "group+1",         "group65537",     "group99999999999999999999",
                           "group64 ", "group64.channel", "block",          "block.channel",
                           "block64.", "block64.chan",    "block0.channel", "block64.channel.channel",
                           ".channel", "channel64",       "row1",           "block6.4",
                           "group1e2", "blockchannel"}) {
    EXPECT_EQ(ParseGranularity(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tare::granularity_test
