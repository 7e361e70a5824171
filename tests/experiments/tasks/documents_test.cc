// SPDX-License-Identifier: Apache-2.0
// Figures against what lm-evaluation-harness logged with transformers (tests/data/harness).
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include "experiments/tasks/perplexity.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/tasks/items/lines.h"
#include "experiments/text/chat/chat_template.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::documents_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TaskResult Measured(const WindowOptions& windows) {
  Model model(PairFolder("novels-standard"));
  const RunTask run = kDocumentsTask.read(HarnessFile("wikitext.jsonl"), model, {.windows = windows});
  PlanRun plan(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(model));
  return run(model, plan, {});
}

struct Logged {
  int64_t window;
  double first, word_perplexity;  // the first document's log-likelihood; of both
};

// A token's log-probability is within 1e-4 of transformers' (choice_test.cc: 1e-3 for endings of some ten tokens), so
// that of a document of 350 within 0.035, and the mean loss of a word (144 of them) within 3e-4.
TEST(Documents, LikelihoodsAreTheHarnesss) {
  for (const Logged& logged : {Logged{32, -1215.9588318, 12366.086}, {2048, -1139.4727783, 7160.8508}}) {
    const TaskResult result = Measured({.window = logged.window});
    ASSERT_EQ(result.records.size(), 2u);
    const auto sum = [&](const char* key) {
      return result.records[0][key].get<double>() + result.records[1][key].get<double>();
    };
    EXPECT_NEAR(result.records[0]["log_likelihood"].get<double>(), logged.first, 0.035) << logged.window;
    EXPECT_NEAR(result.records[1]["log_likelihood"].get<double>(), -103.2209930, 0.01) << logged.window;
    const double loss = -sum("log_likelihood"), words = sum("words"), bytes = sum("bytes");
    const double per_word = result.figures["word_perplexity"];
    EXPECT_NEAR(per_word, logged.word_perplexity, 3e-4 * logged.word_perplexity);
    EXPECT_NEAR(per_word, std::exp(loss / words), 1e-12 * per_word);
    EXPECT_NEAR(result.figures["byte_perplexity"].get<double>(), std::exp(loss / bytes), 1e-12);
    EXPECT_NEAR(result.figures["bits_per_byte"].get<double>(), loss / bytes / std::log(2), 1e-12);
    EXPECT_TRUE(ReadFigures(result.figures, kDocumentsTask));
    EXPECT_THAT(HowMeasured(result.figures, kDocumentsTask), HasSubstr("2 documents, each by itself after <s>"));
  }
}

// Two documents: two more tokens, each a loss.
TEST(Documents, ByTheHarnesssConventionItsOwnBosCounts) {
  const TaskResult usual = Measured({.window = 2048});
  const TaskResult result = Measured({.window = 2048, .convention = Convention::kLmEval});
  EXPECT_EQ(result.figures["tokens"].get<int64_t>(), usual.figures["tokens"].get<int64_t>() + 2);
  EXPECT_LT(result.records[0]["log_likelihood"].get<double>(), usual.records[0]["log_likelihood"].get<double>());
  EXPECT_THAT(HowMeasured(result.figures, kDocumentsTask), HasSubstr("by the convention of lm-eval"));
  EXPECT_THAT(Call([] { Measured({.convention = Convention::kLlamaCpp}); }),
              ThrowsMessage<Error>(HasSubstr("got llama.cpp with documents, expected tare or lm-eval")));
  EXPECT_THAT(Call([] { Measured({.convention = Convention::kGptq}); }),
              ThrowsMessage<Error>(HasSubstr("got gptq with documents, expected tare or lm-eval")));
}

TEST(Documents, WindowsMustFitThePositions) {
  EXPECT_THAT(Call([] { Measured({.window = 2049}); }),
              ThrowsMessage<Error>(HasSubstr("--window: got 2049, expected 2 to")));
  EXPECT_THAT(Call([] { Measured({.window = 1}); }), ThrowsMessage<Error>(HasSubstr("--window: got 1, expected 2 to")));
}

TEST(DocumentItems, PagesAreDetokenizedAndCountedAsTheHarness) {
  for (const auto& sample : ReadJson(HarnessFile("detokenized.json"))) {
    const auto page = sample[0].get<std::string>();
    EXPECT_EQ(DetokenizeWikitext(page), sample[1].get<std::string>()) << page;
    EXPECT_EQ(CountWords(page), sample[2].get<size_t>()) << page;
  }
}

std::vector<TextDocument> Loaded(const std::filesystem::path& path, const std::filesystem::path& model = {}) {
  ChatTemplate chats(model);
  return LoadLines<ParseDocument>(path, 0, TakeFrom::kStart, chats);
}

TEST(DocumentItems, WikitextsLinesAndTheirLogAgree) {
  const std::vector<TextDocument> lines = Loaded(HarnessFile("wikitext.jsonl")),
                                  logs = Loaded(HarnessFile("samples_wikitext.jsonl"));
  ASSERT_EQ(lines.size(), 2u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].text, logs[i].text);
    EXPECT_EQ(lines[i].words, logs[i].words);
    EXPECT_EQ(lines[i].bytes, logs[i].bytes);
    EXPECT_EQ(lines[i].line, i + 1);
  }
  EXPECT_LT(lines[0].text.size(), lines[0].bytes) << "bytes are the page's";
}

TEST(DocumentItems, TextsAreTakenAsWritten) {
  ChatTemplate chats("");
  const TextDocument document = ParseDocument(R"x({"text": " a  b ( c )"})x", "f:1", chats);
  EXPECT_EQ(document.text, " a  b ( c )");
  EXPECT_EQ(document.words, 6u) << "the empty one in front counts, as in the harness";
  EXPECT_EQ(document.bytes, 11u);
}

TEST(DocumentItems, TokensFollowTheBosAndHaveRows) {
  const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-differential"));
  const TextDocument document{.text = "Hello, world!", .where = "f:1"}, marked{.text = "<s> Hello, world!"};
  EXPECT_EQ(TokensOf(document, tokenizer, 2013), tokenizer.Encode("Hello, world!"));
  EXPECT_EQ(TokensOf(marked, tokenizer, 2013), tokenizer.Encode("Hello, world!"));
  EXPECT_THAT(Call([&] { (void)TokensOf(document, tokenizer, 2012); }),
              ThrowsMessage<Error>(HasSubstr("f:1: got id 2012 at token 5, expected 0 to 2011")));
}

TEST(DocumentItems, BadLinesHaveTheirOwnMessages) {
  ChatTemplate chats("");
  const auto refuses = [&](const char* json, const char* why) {
    EXPECT_THAT(Call([&] { ParseDocument(json, "f:1", chats); }), ThrowsMessage<Error>(HasSubstr(why))) << json;
  };
  refuses("5", "expected an object with \"page\", \"text\" or \"messages\"");
  refuses("{}", "got no \"text\"");
  refuses(R"({"page": 1})", "\"page\": got 1");
  refuses(R"({"text": " \n"})", "empty document");
  refuses(R"({"doc": {}, "target": "", "arguments": [["c", " a"]]})", "expected one text; try loglikelihood=FILE");
  refuses(R"({"doc": {}, "target": "", "arguments": [["c", " a"], ["c", " b"]]})", "try choice=FILE");
  refuses(R"({"messages": []})", "f:1: \"messages\": got 0 messages, expected at least one message");
}

TEST(DocumentItems, ChatsAreWrittenByTheTemplate) {
  const TemporaryFolder folder;
  PutFile(folder / "config.json", "{}");
  PutFile(folder / "chat_template.jinja", "any");
  PutFile(folder / "chats.jsonl",
          R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello you"}, {"type": "image"}]}]})");
  OnChat([](const std::string& source, const std::string&) -> ChatWriter {
    return [=](const Json& names, const std::string&) { return source + names.dump(); };
  });
  const std::vector<TextDocument> documents = Loaded(folder / "chats.jsonl", folder.path());
  EXPECT_THAT(documents.at(0).text, AllOf(StartsWith("any{"), HasSubstr("\"add_generation_prompt\":false")));
  EXPECT_EQ(documents[0].words, 2u) << "of the contents, whatever the template adds";
  EXPECT_EQ(documents[0].bytes, 9u);
  PutFile(folder / "chats.jsonl", R"({"text": "a", "messages": [{"role": "user", "content": "Hello you"}]})");
  EXPECT_THAT([&] { Loaded(folder / "chats.jsonl", folder.path()); },
              testing::ThrowsMessage<Error>(HasSubstr("got \"text\" and \"messages\", expected one of them")));
}

}  // namespace
}  // namespace tare::documents_test
