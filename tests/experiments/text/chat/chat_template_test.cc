// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/drawing/interpreter.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::chat_template_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ChatTemplateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OnChat(ReadChatTemplate);
    PutFile(folder_ / "config.json", "{}");
  }
  std::string Text(const Json& chat, ChatEnd end = ChatEnd::kWhole) {
    return ChatTemplate(folder_.path()).Text(chat, end, "chat");
  }

  const TemporaryFolder folder_;
  const Json hello_{{"messages", {{{"role", "user"}, {"content", "Hello"}}}}};
};

TEST_F(ChatTemplateTest, IsFoundWhereTransformersFindsIt) {
  EXPECT_THAT([&] { Text(hello_); }, ThrowsMessage<Error>(HasSubstr("got no chat template, expected one ")));
  PutFile(folder_ / "tokenizer_config.json",
          R"({"bos_token": {"content": "<s>"}, "chat_template": "{{ bos_token + messages[0].content }}"})");
  EXPECT_EQ(Text(hello_), "<s>Hello");
  PutFile(folder_ / "tokenizer_config.json",
          R"({"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(Text(hello_), "d");
  Json tools = hello_;
  tools["tools"] = {{{"name", "add"}}};
  EXPECT_EQ(Text(tools), "d");
  PutFile(folder_ / "tokenizer_config.json",
          R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  ChatTemplate both(folder_.path());
  EXPECT_EQ(both.Text(tools, ChatEnd::kWhole, "chat"), "t");
  EXPECT_EQ(both.Text(hello_, ChatEnd::kWhole, "chat"), "d");
  PutFile(folder_ / "chat_template.jinja", "{{ 'answer' if add_generation_prompt }}{{ tools is none }}");
  EXPECT_EQ(Text(hello_), "True");
  EXPECT_EQ(Text(hello_, ChatEnd::kPrompted), "answerTrue");
}

TEST_F(ChatTemplateTest, RefusesWhatIsNoChat) {
  PutFile(folder_ / "chat_template.jinja", "{{ nobody() }}");
  EXPECT_THAT([&] { Text({{"messages", Json::array()}}); },
              ThrowsMessage<Error>(HasSubstr("\"messages\": got 0 messages, expected")));
  EXPECT_THAT(
      [&] { Text({{"messages", {{{"content", "a"}}}}}); },
      ThrowsMessage<Error>(HasSubstr("got 1 message, expected at least one message, each an object with a \"role\"")));
  EXPECT_THAT([&] { Text(hello_); }, ThrowsMessage<Error>(HasSubstr("chat_template.jinja: line 1: got the function")));
  Json large = hello_, digits = hello_;
  large["tools"] = {{{"id", int64_t{1} << 53}}};
  EXPECT_THAT([&] { Text(large); }, ThrowsMessage<Error>(HasSubstr("got 9007199254740992, expected a number of at ")));
  digits["tools"] = {{{"2", 1}, {"1", 2}}};
  EXPECT_THAT([&] { Text(digits); }, ThrowsMessage<Error>(HasSubstr("got the key \"2\" among others")));
  OnChat(nullptr);
  EXPECT_THAT([&] { Text(hello_); }, ThrowsMessage<Error>(HasSubstr("got messages, expected texts")));
}

}  // namespace
}  // namespace tare::chat_template_test
