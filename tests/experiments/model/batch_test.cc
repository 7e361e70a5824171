// SPDX-License-Identifier: Apache-2.0
// The layout of sequences and branches in a batch, and that sharing a batch or a prefix changes no result: rows of
// different sequences never meet, so only the order of f32 sums may differ.
#include "experiments/model/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/logits.h"

namespace tare::batch_test {
namespace {

using ::testing::ElementsAre;

constexpr double kTolerance = 2e-5;  // as parity_test.cc

TEST(TokenBatchTest, SequencesAndBranchesAreContiguous) {
  TokenBatch batch;
  EXPECT_EQ(batch.Rows(), 0);
  EXPECT_EQ(batch.Add(7, std::vector<int32_t>{1, 2, 3}), 0);
  EXPECT_EQ(batch.AddBranch(std::vector<int32_t>{4, 5}), 3);
  EXPECT_EQ(batch.AddBranch(std::vector<int32_t>{6}), 5);
  EXPECT_EQ(batch.Add(9, std::vector<int32_t>{8}), 6);
  EXPECT_THAT(batch.tokens, ElementsAre(1, 2, 3, 4, 5, 6, 8));
  EXPECT_EQ(batch.Rows(), 7);
  ASSERT_EQ(batch.sequences.size(), 2u);
  EXPECT_EQ(batch.sequences[0].index, 7);
  EXPECT_EQ(batch.sequences[0].first_row, 0);
  EXPECT_EQ(batch.sequences[0].prefix, 3);
  EXPECT_THAT(batch.sequences[0].branches, ElementsAre(2, 1));
  EXPECT_EQ(batch.sequences[1].index, 9);
  EXPECT_EQ(batch.sequences[1].first_row, 6);
  EXPECT_EQ(batch.sequences[1].prefix, 1);
  EXPECT_TRUE(batch.sequences[1].branches.empty());
}

class BatchTest : public testing::TestWithParam<const char*> {
 protected:
  std::span<const float> Rows(const std::vector<float>& logits, int64_t first, int64_t count) const {
    const int64_t V = model_.config().vocabulary;
    return std::span(logits).subspan(static_cast<size_t>(first * V), static_cast<size_t>(count * V));
  }

  Model model_{GoldenFolder(GetParam())};
  // 111 tokens, more than a block of 64 queries, of the golden rows one after another.
  std::vector<int32_t> text_ = [] {
    const std::vector<std::vector<int32_t>> rows = GoldenRows(GetParam());
    std::vector<int32_t> text;
    for (const size_t row : {0, 1, 0}) text.insert(text.end(), rows[row].begin(), rows[row].end());
    return text;
  }();
};

TEST_P(BatchTest, SequencesInABatchEqualSequencesAlone) {
  const std::span<const int32_t> text(text_);
  const std::span<const int32_t> parts[] = {text.first(70), text.subspan(10, 1), text.subspan(20, 91),
                                            text.subspan(3, 64)};
  TokenBatch batch;
  std::vector<int64_t> first;
  for (size_t i = 0; i < std::size(parts); ++i) first.push_back(batch.Add(static_cast<int64_t>(i), parts[i]));
  const std::vector<float> together = LogitsOf(model_, batch);
  for (size_t i = 0; i < std::size(parts); ++i) {
    TokenBatch alone;
    alone.Add(0, parts[i]);
    EXPECT_TRUE(AllNear(Rows(together, first[i], std::ssize(parts[i])), LogitsOf(model_, alone), kTolerance))
        << "sequence " << i;
  }
}

TEST_P(BatchTest, BranchesEqualWholeSequences) {
  const std::span<const int32_t> text(text_);
  const std::span<const int32_t> prefix = text.first(30);
  const std::span<const int32_t> branches[] = {text.subspan(30, 5), text.subspan(3, 70), text.subspan(50, 1)};
  TokenBatch shared;
  shared.Add(0, text.first(9));  // something in front, so that rows are no positions
  const int64_t prefix_row = shared.Add(1, prefix);
  std::vector<int64_t> first;
  for (const auto& branch : branches) first.push_back(shared.AddBranch(branch));
  const std::vector<float> together = LogitsOf(model_, shared);
  for (size_t i = 0; i < std::size(branches); ++i) {
    std::vector<int32_t> whole(prefix.begin(), prefix.end());
    whole.insert(whole.end(), branches[i].begin(), branches[i].end());
    TokenBatch alone;
    alone.Add(0, whole);
    const std::vector<float> expected = LogitsOf(model_, alone);
    EXPECT_TRUE(AllNear(Rows(together, prefix_row, 30), Rows(expected, 0, 30), kTolerance)) << "prefix of branch " << i;
    EXPECT_TRUE(AllNear(Rows(together, first[i], std::ssize(branches[i])), Rows(expected, 30, std::ssize(branches[i])),
                        kTolerance))
        << "branch " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, BatchTest, testing::Values("llama-gqa", "diffllama-gqa"), [](const auto& test) {
  return std::string(test.param).substr(0, std::string(test.param).find('-'));
});

}  // namespace
}  // namespace tare::batch_test
