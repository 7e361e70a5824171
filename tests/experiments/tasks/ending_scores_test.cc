// SPDX-License-Identifier: Apache-2.0
// Log-likelihoods and greedy answers of the embedded pair, against what lm-evaluation-harness logged with transformers
// (tests/data/harness). choice_test.cc has their sums in double, their caches and their limits.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include "experiments/tasks/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/tasks/items/choice_items.h"
#include "experiments/tasks/items/lines.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::ending_scores_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Tokenizer& PairTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-standard"));
  return tokenizer;
}

auto Scored(const std::vector<ChoiceItem>& items, ContextSharing sharing) {
  Model model(PairFolder("novels-standard"));
  return ScoreEndings(model, {}, sharing, items, PairTokenizer(), PairTokenizer().bos(), {}, {});
}

// Log-likelihoods of transformers in f32 are within 1e-3 (choice_test.cc).
void ExpectLogged(const std::vector<std::vector<ScoredEnding>>& scores, const std::string& task) {
  ForEachLine(HarnessFile("samples_" + task + ".jsonl"), 0, TakeFrom::kStart, [&](const JsonLine& line) {
    const nlohmann::json logged = nlohmann::json::parse(line.text).at("filtered_resps");
    const std::vector<ScoredEnding>& endings = scores.at(line.number - 1);
    const bool single = logged[0].is_string();
    ASSERT_EQ(endings.size(), single ? 1 : logged.size());
    for (size_t e = 0; e < endings.size(); ++e) {
      const nlohmann::json& response = single ? logged : logged[e];
      EXPECT_NEAR(endings[e].log_likelihood, std::stod(response[0].get<std::string>()), 1e-3) << line.where << " " << e;
      EXPECT_EQ(endings[e].greedy, response[1] == "True") << line.where << " " << e;
    }
  });
}

TEST(EndingScores, AreWhatTheHarnessLogged) {
  for (const std::string task : {"hellaswag", "arc_easy", "openbookqa", "piqa", "winogrande", "boolq", "mmlu"}) {
    const std::vector<ChoiceItem> items = LoadLines<ParseChoiceItem>(HarnessFile(task + ".jsonl"));
    for (const ContextSharing sharing : {ContextSharing::kAllowed, ContextSharing::kForbidden})
      ExpectLogged(Scored(items, sharing), task);
  }
  ExpectLogged(Scored(LoadLines<ParseContinuation>(HarnessFile("lambada_openai.jsonl")), ContextSharing::kAllowed),
               "lambada_openai");
}

TEST(EndingScores, AnEmptyContextIsTheBeginningOfAText) {
  ChoiceItem item;
  item.contexts = {""};
  item.endings = {"The captain came on deck"};
  item.between = "";
  const double whole = Scored({item}, ContextSharing::kAllowed)[0][0].log_likelihood;
  EXPECT_EQ(Scored({item}, ContextSharing::kForbidden)[0][0].log_likelihood, whole);
  // log P(ab) = log P(a) + log P(b | a)
  ChoiceItem first = item, rest = item;
  first.endings = {"The captain"};
  rest.contexts = {"The captain"}, rest.endings = {" came on deck"};
  const auto parts = Scored({first, rest}, ContextSharing::kAllowed);
  EXPECT_NEAR(parts[0][0].log_likelihood + parts[1][0].log_likelihood, whole, 1e-3);
  EXPECT_THAT(Call([&] {
                (void)EncodeChoice(item, Tokenizer::LoadFile(TARE_SOURCE_DIR "/tests/data/text/tokenizers/gpt2.json"));
              }),
              ThrowsMessage<Error>(HasSubstr("got an empty context and a tokenizer without <s>")));
}

}  // namespace
}  // namespace tare::ending_scores_test
