// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"

namespace tare::shard_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Shard, IsParsed) {
  EXPECT_EQ(ParseShard("--shard", "2/5").index, 2u);
  EXPECT_EQ(ParseShard("--shard", "2/5").count, 5u);
  for (const char* text : {"", "1", "1/", "/2", "2/2", "0/0", "-1/2", "1/2x", "1 /2", "0x0/2"})
    EXPECT_THAT([&] { ParseShard("--cut", text); }, ThrowsMessage<Error>(HasSubstr("--cut: got '"))) << text;
}

}  // namespace
}  // namespace tare::shard_test
