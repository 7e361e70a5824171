// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::steps_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(Steps, KeysAndTypes) {
  const nlohmann::json json = {{"a", 1}, {"b", nullptr}};
  EXPECT_EQ(Get<int>(json, "a", "w"), 1);
  EXPECT_EQ(GetOr(json, "b", 7, "w"), 7);
  EXPECT_EQ(GetOr(json, "c", 7, "w"), 7);
  EXPECT_THAT(Call([&] { Get<int>(json, "c", "w"); }), ThrowsMessage<Error>(HasSubstr("w: got no c")));
  EXPECT_THAT(Call([&] { Get<std::string>(json, "a", "w"); }),
              ThrowsMessage<Error>(HasSubstr("w: a: got 1, expected another type")));
}

TEST(Steps, OfSequences) {
  std::vector<pipeline::Json> flat;
  const auto keep = [&](const pipeline::Json& step) { flat.push_back(step); };
  ForEachStep(
      nlohmann::json::parse(R"({"type":"Sequence","list":[{"type":"A"},{"type":"Sequence","list":[{"type":"B"}]}]})"),
      "w", "list", keep);
  ASSERT_EQ(flat.size(), 2u);
  EXPECT_EQ(flat[1]["type"], "B");
  EXPECT_THAT(Call([&] { ForEachStep(pipeline::Json("x"), "w", "list", keep); }),
              ThrowsMessage<Error>(HasSubstr("expected an object or null")));
}

TEST(Growth, SixteenTimesAndABeginning) {
  EXPECT_NO_THROW(pipeline::RequireGrowth(0, 65536, "step"));
  EXPECT_NO_THROW(pipeline::RequireGrowth(10, 65696, "step"));
  EXPECT_THAT(Call([] { pipeline::RequireGrowth(10, 65697, "step"); }),
              ThrowsMessage<Error>(HasSubstr("step: got 65697 bytes from a text of 10, expected at most 65696")));
}

}  // namespace
}  // namespace tare::steps_test
