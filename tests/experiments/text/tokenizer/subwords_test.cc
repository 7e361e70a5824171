// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/subwords.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::subwords_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(Subwords, AModelWithoutATypeIsRecognised) {
  std::vector<int32_t> ids;
  BpeLists lists;
  const auto json = ParseWithLists(R"({"model": {"vocab": {"a": 0}, "merges": []}})", "f", &lists);
  ParseSubwords(json["model"], std::move(lists), WordsOf::kCharacters, "m")->Encode("a", &ids);
  const auto unigram = nlohmann::json::parse(R"({"vocab": [["a", -1.0]]})");
  ParseSubwords(unigram, {}, WordsOf::kCharacters, "m")->Encode("a", &ids);
  EXPECT_THAT(ids, ElementsAre(0, 0));
  EXPECT_THAT(Call([] { ParseSubwords({{"type", "WordLevel"}}, {}, WordsOf::kCharacters, "m"); }),
              ThrowsMessage<Error>(HasSubstr("m: got type WordLevel")));
  EXPECT_THAT(Call([] { ParseSubwords("x", {}, WordsOf::kCharacters, "m"); }),
              ThrowsMessage<Error>(HasSubstr("expected an object")));
}

}  // namespace
}  // namespace tare::subwords_test
