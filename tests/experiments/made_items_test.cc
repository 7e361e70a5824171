// SPDX-License-Identifier: Apache-2.0
// Items made by `tare make` from the embedded pair's text: per item, the sums of log-probabilities that Hugging Face
// transformers gives for its endings (tests/data/pair/README.md).
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include <gtest/gtest.h>

#include "experiments/tasks/choice.h"
#include "experiments/tasks/made/makers.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "tests/support/golden.h"

namespace tare::made_items_test {
namespace {

std::vector<Json> MadeItems(const std::string& task, const Tokenizer& tokenizer) {
  const MappedFile file(PairFolder("heldout.txt"));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (task == "shots") return MakeShots({.shots = {8}, .seeds = 2, .samples = 5}, Haystack::WordsOf(text, "heldout"));
  const Haystack haystack(text, tokenizer, "heldout.txt");
  if (task == "copies") return MakeCopies({.lengths = {256}, .depths = {0, 0.5, 1}, .samples = 7}, haystack, tokenizer);
  return MakeNeedles({.grid = {.lengths = {128}, .depths = {0, 0.5, 1}, .samples = 7}}, haystack, tokenizer);
}

class MadeItemsTest : public testing::TestWithParam<const char*> {};

TEST_P(MadeItemsTest, LogLikelihoodsAreTransformers) {
  const std::string task = GetParam();
  const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-standard"));
  std::vector<ChoiceItem> items;
  for (const Json& item : MadeItems(task, tokenizer)) items.push_back(ParseChoiceItem(JsonText(item), task));
  for (const std::string kind : {"standard", "differential"}) {
    Model model(PairFolder("novels-" + kind));
    const auto expected = ReadJson(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/pair" /
                                   (task + "-made-expected-" + kind + ".json"))["items"];
    ASSERT_EQ(items.size(), expected.size());
    const EndingScores scores =
        ScoreEndings(model, {}, ContextSharing::kAllowed, items, tokenizer, tokenizer.bos(), {}, {});
    for (size_t i = 0; i < items.size(); ++i) {
      ASSERT_EQ(scores[i].size(), expected[i].size());
      for (size_t e = 0; e < expected[i].size(); ++e)
        EXPECT_NEAR(scores[i][e].log_likelihood, expected[i][e].get<double>(), 1e-3) << kind << ", item " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pair, MadeItemsTest, testing::Values("needles", "shots", "copies"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tare::made_items_test
