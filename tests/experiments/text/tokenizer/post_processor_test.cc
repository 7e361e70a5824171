// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/post_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::post_processor_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(PostProcessor, TemplatesAndPairs) {
  const auto json = nlohmann::json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1, 7], "tokens": []},
                                  "</s>": {"id": "</s>", "ids": [2], "tokens": []}}})");
  EXPECT_THAT(PostProcessor(json, "").before, ElementsAre(1, 7));
  EXPECT_THAT(PostProcessor(json, "").after, ElementsAre(2));
  EXPECT_THAT(PostProcessor({{"type", "BertProcessing"}, {"sep", {"[SEP]", 5}}, {"cls", {"[CLS]", 4}}}, "").before,
              ElementsAre(4));
  EXPECT_THAT(PostProcessor({{"type", "ByteLevel"}}, "").before, IsEmpty());
  auto without = json;
  without["special_tokens"].erase("</s>");
  EXPECT_THAT(Call([&] { PostProcessor(without, "p"); }),
              ThrowsMessage<Error>(HasSubstr("special_tokens: got no '</s>'")));
}

TEST(PostProcessor, IdsThatWrapAreRefused) {
  const auto json = nlohmann::json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}],
    "special_tokens": {"<s>": {"ids": [4294967297]}}})");
  EXPECT_THAT(Call([&] { PostProcessor(json, "p"); }),
              ThrowsMessage<Error>(HasSubstr("ids: got 4294967297, expected an integer")));
  EXPECT_THAT(Call([] {
                PostProcessor({{"type", "BertProcessing"}, {"sep", {"[SEP]", 4294967296}}, {"cls", {"[CLS]", 4}}}, "p");
              }),
              ThrowsMessage<Error>(HasSubstr("got 4294967296, expected an integer")));
}

TEST(PostProcessor, IdsAroundATextAreFew) {
  const auto of = [](size_t items) {
    const nlohmann::json item{{"SpecialToken", {{"id", "<s>"}}}};
    return nlohmann::json{{"type", "TemplateProcessing"},
                          {"single", std::vector(items, item)},
                          {"special_tokens", {{"<s>", {{"ids", {1, 2}}}}}}};
  };
  EXPECT_EQ(PostProcessor(of(32), "p").before.size(), 64u);
  EXPECT_THAT(Call([&] { PostProcessor(of(33), "p"); }),
              ThrowsMessage<Error>(HasSubstr("got more than 64 ids around")));
  const nlohmann::json several{{"type", "Sequence"}, {"processors", std::vector(3, of(16))}};
  EXPECT_THAT(Call([&] { PostProcessor(several, "p"); }),
              ThrowsMessage<Error>(HasSubstr("got more than 64 ids around")));
}

}  // namespace
}  // namespace tare::post_processor_test
