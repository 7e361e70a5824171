// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/piece_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::piece_decoder_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::string Decode(const nlohmann::json& json, std::vector<std::string> pieces) {
  return Decoder(json, "decoder").Apply(std::move(pieces));
}

TEST(Decoder, EachKind) {
  EXPECT_EQ(Decode({{"type", "ByteLevel"}}, {"\xc4\xa0It", "\xc4\x8a"}), " It\n");
  EXPECT_EQ(Decode({{"type", "ByteLevel"}}, {"\xc3\xa6"}), "\xef\xbf\xbd");  // a first byte alone
  EXPECT_EQ(Decode({{"type", "ByteFallback"}}, {"<0xE6>", "<0x97>", "<0xA5>", "a", "<0xE6>", "<0xE6>"}),
            "\xe6\x97\xa5"
            "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(Decode({{"type", "Metaspace"}}, {"\xe2\x96\x81It", "\xe2\x96\x81was"}), "It was");
  EXPECT_EQ(Decode({{"type", "Metaspace"}, {"prepend_scheme", "never"}}, {"\xe2\x96\x81It"}), " It");
  EXPECT_EQ(Decode({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 2}}, {"  a   "}), " a ");
  EXPECT_EQ(Decode({{"type", "Replace"}, {"pattern", {{"String", "_"}}}, {"content", " "}}, {"a_b", "_"}), "a b ");
  EXPECT_EQ(Decode(nlohmann::json(), {"a", "b"}), "a b");
}

TEST(Decoder, EndlessAndGrowingStepsAreBounded) {
  EXPECT_EQ(Decode({{"type", "Strip"}, {"content", ""}, {"start", 1'000'000'000'000}}, {"a"}), "a");
  nlohmann::json steps = nlohmann::json::array();
  for (int i = 0; i < 40; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  EXPECT_THAT(Call([&] { Decode({{"type", "Sequence"}, {"decoders", steps}}, {"a"}); }),
              ThrowsMessage<Error>(HasSubstr("decoder: got 131072 bytes from a text of 1")));
}

}  // namespace
}  // namespace tare::piece_decoder_test
