// SPDX-License-Identifier: Apache-2.0
// What of a text is read, and the windows of a long one, which are read alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "experiments/passes/sequences.h"
#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::long_texts_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ModelConfig Positions(int positions) { return {.max_positions = positions}; }

TEST(LongTextsTest, WhatOfATextIsNeeded) {
  const auto needed = [](const WindowOptions& options) {
    const TextPart part = options.NeededOf(Positions(64));
    return std::tuple(part.first, part.windows, part.positions);
  };
  EXPECT_EQ(needed({}), std::tuple(SIZE_MAX, 0, 0));
  EXPECT_EQ(needed({.tokens = 9, .from = TakeFrom::kStart}), std::tuple(9, 0, 0));
  EXPECT_EQ(needed({.limit = 9, .from = TakeFrom::kStart}), std::tuple(SIZE_MAX, 0, 0));
  EXPECT_EQ(needed({.tokens = 9, .convention = Convention::kLlamaCpp}), std::tuple(9, 0, 0));
  // At least as many windows as are taken: without `<s>` one of 11 scores 9 or 10 tokens.
  EXPECT_EQ(needed({.window = 11, .tokens = 90}), std::tuple(SIZE_MAX, 10, 11));
  EXPECT_EQ(needed({.window = 11, .tokens = 90, .limit = 4}), std::tuple(SIZE_MAX, 4, 11));
  EXPECT_EQ(needed({.tokens = 3}), std::tuple(SIZE_MAX, 1, 64));
  EXPECT_EQ(needed({.window = 11, .stride = 5, .tokens = 90}), std::tuple(SIZE_MAX, 0, 0));
}

// Each sequence of such an input is one window, and as many are taken as are asked for.
TEST(LongTextsTest, WindowsThatWereReadAloneAreTaken) {
  TokenInput text{.sequences = {}, .bos = 70, .whole = false, .in_windows = true};
  for (int i = 0; i < 10; ++i) text.sequences.push_back(std::vector<int32_t>(10, i));
  const WindowOptions options{.window = 11, .tokens = 90};
  for (const auto& sequences :
       {CutSequences(text, Positions(64), options), CutDisjoint(text, Positions(64), options)}) {
    ASSERT_EQ(sequences.size(), 9u);
    for (const ScoredSequence& s : sequences) EXPECT_EQ(s.tokens.size(), 11u);
  }
  EXPECT_TRUE(CutOf(text, Positions(64), options).at_lines);
}

// n windows of m tokens of a text of n: 75,905 of 4,096 here.
TEST(LongTextsTest, CloseWindowsThatFillTheMemoryAreRefused) {
  const TokenInput ids{.kind = TokenInput::Kind::kIds, .sequences = {std::vector<int32_t>(80'000, 1)}};
  WindowOptions close{.window = 4096, .stride = 1};
  EXPECT_THAT(Call([&] { CutSequences(ids, Positions(4096), close); }),
              ThrowsMessage<Error>(HasSubstr("--stride: got 75905 windows that overlap, 310906880 tokens")));
  close.limit = 5;
  EXPECT_EQ(CutSequences(ids, Positions(4096), close).size(), 5u);
}

}  // namespace
}  // namespace tare::long_texts_test
