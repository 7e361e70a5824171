// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/subwords.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(Subwords, AModelWithoutATypeIsRecognised) {
  std::vector<int32_t> ids;
  ParseSubwords({{"vocab", {{"a", 0}}}, {"merges", nlohmann::json::array()}}, WordsOf::kCharacters, "m")
      ->Encode("a", &ids);
  ParseSubwords(nlohmann::json::parse(R"({"vocab": [["a", -1.0]]})"), WordsOf::kCharacters, "m")->Encode("a", &ids);
  EXPECT_THAT(ids, ElementsAre(0, 0));
  EXPECT_THAT(Call([] { ParseSubwords({{"type", "WordLevel"}}, WordsOf::kCharacters, "m"); }),
              ThrowsMessage<Error>(HasSubstr("m: got type WordLevel")));
  EXPECT_THAT(Call([] { ParseSubwords("x", WordsOf::kCharacters, "m"); }),
              ThrowsMessage<Error>(HasSubstr("expected an object")));
}

}  // namespace
}  // namespace tare
