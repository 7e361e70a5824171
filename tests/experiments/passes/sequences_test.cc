// SPDX-License-Identifier: Apache-2.0
// Which tokens are in which window, and which of them are scored.
#include <algorithm>
#include <cstdint>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/passes/sequences.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::sequences_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Windows, EachTokenIsScoredOnceWithItsContext) {
  for (size_t n = 0; n <= 40; ++n) {
    for (size_t m = 1; m <= 12; ++m) {
      for (size_t s = 1; s <= m; ++s) {
        SCOPED_TRACE(testing::Message() << n << " tokens, windows of " << m << ", stride " << s);
        const std::vector<Window> windows = CutWindows(n, m, s);
        size_t scored = 0;
        for (size_t i = 0; i < windows.size(); ++i) {
          const Window& w = windows[i];
          ASSERT_EQ(w.end - w.begin, std::min(n, m));  // all are full but where the row is shorter than one
          ASSERT_LE(w.end, n);
          ASSERT_EQ(w.first_scored, scored);
          ASSERT_LE(w.begin, w.first_scored);
          ASSERT_LT(w.first_scored, w.end);  // none is for nothing
          ASSERT_GE(w.first_scored - w.begin, i == 0 ? 0 : m - s);
          ASSERT_EQ(w.begin, std::min(i * s, n - std::min(n, m)));
          scored = w.end;
        }
        ASSERT_EQ(scored, n);
      }
    }
  }
}

// The embedded pair's reference figures: 511 tokens after `<s>`, 20,440 of them.
TEST(Windows, WithoutOverlapTheyTileTheText) {
  const std::vector<Window> windows = CutWindows(20440, 511, 511);
  ASSERT_EQ(windows.size(), 40u);
  for (size_t i = 0; i < windows.size(); ++i) {
    EXPECT_EQ(windows[i].begin, 511 * i);
    EXPECT_EQ(windows[i].first_scored, windows[i].begin);
  }
}

TEST(Windows, TheLastIsMovedBackToBeFull) {
  const std::vector<Window> windows = CutWindows(10, 4, 3);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[2].begin, 6u);
  const std::vector<Window> moved = CutWindows(9, 4, 4);
  ASSERT_EQ(moved.size(), 3u);
  EXPECT_EQ(moved[2].begin, 5u);
  EXPECT_EQ(moved[2].end, 9u);
  EXPECT_EQ(moved[2].first_scored, 8u);
}

TEST(Windows, RefusesWhatCutsNothing) {
  EXPECT_THROW(CutWindows(10, 0, 0), Error);
  EXPECT_THROW(CutWindows(10, 4, 0), Error);
  EXPECT_THROW(CutWindows(10, 4, 5), Error);
  EXPECT_TRUE(CutWindows(0, 4, 4).empty());
  EXPECT_EQ(CutWindows(3, SIZE_MAX, SIZE_MAX).size(), 1u);
}

TokenInput Ids(std::vector<std::vector<int32_t>> rows) {
  return {.kind = TokenInput::Kind::kIds, .sequences = std::move(rows)};
}

ModelConfig Positions(int positions) { return {.max_positions = positions}; }

// Tokens 0, 1, .. n - 1, counted on from `from`: each shows its own position.
std::vector<int32_t> Counting(int32_t n, int32_t from = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = from + i;
  return tokens;
}

// How often each token is scored.
std::map<int32_t, int> Scored(const std::vector<ScoredSequence>& sequences) {
  std::map<int32_t, int> times;
  for (const ScoredSequence& s : sequences) {
    for (auto t = static_cast<size_t>(s.first_target); t < s.tokens.size(); ++t) ++times[s.tokens[t]];
  }
  return times;
}

TEST(SequencesTest, EveryTokenOfATextIsScoredOnce) {
  TokenInput text{.sequences = {Counting(100, 1000)}, .bos = 7};
  for (const int64_t window : {2, 3, 16, 100, 101, 102, 200}) {
    for (const int64_t stride : {0, 1, 2, 15}) {
      if (stride > window - 1) continue;
      const auto sequences = CutSequences(text, Positions(200), {.window = window, .stride = stride});
      const std::map<int32_t, int> times = Scored(sequences);
      ASSERT_EQ(times.size(), 100u) << window << " " << stride;
      for (const auto& [token, count] : times) ASSERT_EQ(count, 1) << token;
      for (const ScoredSequence& s : sequences) {
        ASSERT_EQ(s.tokens[0], 7);
        ASSERT_EQ(std::ssize(s.tokens), std::min<int64_t>(window, 101));
      }
    }
  }
}

TEST(SequencesTest, AWindowThatBeginsAtAnOwnBosGetsNoSecond) {
  std::vector<int32_t> tokens = Counting(20, 1000);
  tokens[10] = 7;  // where the second window begins
  const auto sequences = CutSequences({.sequences = {tokens}, .bos = 7}, Positions(200), {.window = 11});
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_EQ(sequences[0].tokens.size(), 11u);
  EXPECT_EQ(sequences[1].tokens, std::vector(tokens.begin() + 10, tokens.end()));
  EXPECT_EQ(sequences[1].first_target, 1);
}

// Nothing predicts the first token of a row; all the others are scored once.
TEST(SequencesTest, EveryTokenOfAnIdRowButTheFirstIsScoredOnce) {
  const TokenInput input = Ids({Counting(50, 0), Counting(7, 100), Counting(1, 200)});
  for (const int64_t window : {2, 3, 16, 49, 50, 64}) {
    for (const int64_t stride : {0, 1, 10}) {
      if (stride > window - 1) continue;
      std::map<int32_t, int> times = Scored(CutSequences(input, Positions(64), {.window = window, .stride = stride}));
      ASSERT_EQ(times.size(), 49u + 6) << window << " " << stride;
      for (const auto& [token, count] : times) ASSERT_EQ(count, 1) << token;
      ASSERT_FALSE(times.contains(0) || times.contains(100) || times.contains(200));
    }
  }
}

TEST(SequencesTest, DisjointWindowsHoldEveryTokenOnce) {
  TokenInput text{.sequences = {Counting(100, 1000)}, .bos = 7};
  const auto windows = CutDisjoint(text, Positions(64), {.window = 31});
  ASSERT_EQ(windows.size(), 4u);
  std::map<int32_t, int> times;
  for (const ScoredSequence& s : windows) {
    EXPECT_EQ(s.tokens[0], 7);
    for (const int32_t token : s.tokens) ++times[token];
  }
  EXPECT_EQ(windows[3].tokens.size(), 11u);
  EXPECT_EQ(times.size(), 101u);
  EXPECT_EQ(times[7], 4);
  times.erase(7);
  for (const auto& [token, count] : times) EXPECT_EQ(count, 1) << token;

  const auto rows = CutDisjoint(Ids({Counting(10), Counting(3, 50)}), Positions(64), {.window = 4});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_THAT(rows[2].tokens, ElementsAre(8, 9));
  EXPECT_THAT(rows[3].tokens, ElementsAre(50, 51, 52));
  EXPECT_THAT([&] { CutDisjoint(text, Positions(64), {.stride = 5}); },
              ThrowsMessage<Error>(HasSubstr("--stride: got 5")));
}

TEST(SequencesTest, WindowsDefaultToWhatTheModelAllows) {
  TokenInput text{.sequences = {Counting(2000)}, .bos = 7};
  EXPECT_EQ(CutSequences(text, Positions(2048), {})[0].tokens.size(), 512u);
  EXPECT_EQ(CutSequences(text, Positions(128), {})[0].tokens.size(), 128u);
  const TokenInput ids = Ids({Counting(900), Counting(30)});
  const auto sequences = CutSequences(ids, Positions(2048), {});
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_EQ(sequences[0].tokens, Counting(900));
  EXPECT_EQ(sequences[1].tokens, Counting(30));
  EXPECT_EQ(CutSequences(ids, Positions(500), {})[0].tokens.size(), 500u);
}

// 100 tokens make ten windows of ten. As many as asked for are taken: the middle one of each of three or four parts.
// Windows are whole, unless fewer tokens than one window are asked for.
TEST(SequencesTest, TokensAndLimitSpreadOverTheInput) {
  const TokenInput text{.sequences = {Counting(100)}, .bos = 7};
  const auto begins = [&](const WindowOptions& options) {
    std::vector<int32_t> first;
    for (const ScoredSequence& s : CutSequences(text, Positions(64), options)) {
      first.push_back(s.tokens.at(1));
      EXPECT_EQ(s.tokens.size(), 11u);
      EXPECT_EQ(s.first_target, 1);
    }
    return first;
  };
  EXPECT_THAT(begins({.window = 11, .tokens = 30}), ElementsAre(10, 50, 80));
  EXPECT_THAT(begins({.window = 11, .tokens = 39}), ElementsAre(10, 50, 80));
  EXPECT_THAT(begins({.window = 11, .limit = 4}), ElementsAre(10, 30, 60, 80));
  EXPECT_THAT(begins({.window = 11, .tokens = 30, .limit = 1}), ElementsAre(50));
  EXPECT_EQ(begins({.window = 11, .limit = 99}).size(), 10u);
  const std::vector<ScoredSequence> few = CutSequences(text, Positions(64), {.window = 11, .tokens = 3});
  ASSERT_EQ(few.size(), 1u);
  EXPECT_THAT(few[0].tokens, ElementsAre(7, 50, 51, 52));
  // With a stride, every window but the first scores its last tokens, each after eight others.
  const auto strided = CutSequences(text, Positions(64), {.window = 11, .stride = 2, .tokens = 10});
  ASSERT_EQ(strided.size(), 5u);
  EXPECT_EQ(Scored(strided).size(), 10u);
  // Rows are parts of one input.
  const TokenInput rows = Ids({Counting(10), Counting(10, 50), Counting(10, 90)});
  EXPECT_THAT(CutSequences(rows, Positions(64), {.limit = 1}).at(0).tokens.at(0), 50);
}

TEST(SequencesTest, TokensAndLimitFromTheStart) {
  TokenInput text{.sequences = {Counting(100)}, .bos = 7};
  auto sequences = CutSequences(text, Positions(64), {.window = 11, .tokens = 25, .from = TakeFrom::kStart});
  ASSERT_EQ(sequences.size(), 3u);
  EXPECT_EQ(Scored(sequences).size(), 25u);
  EXPECT_EQ(Scored(sequences).rbegin()->first, 24);
  sequences = CutSequences(text, Positions(64), {.window = 11, .limit = 4, .from = TakeFrom::kStart});
  EXPECT_EQ(sequences.size(), 4u);
  EXPECT_EQ(Scored(sequences).size(), 40u);
  EXPECT_EQ(
      CutSequences(text, Positions(64), {.window = 11, .tokens = 25, .limit = 2, .from = TakeFrom::kStart}).size(), 2u);
  // Tokens count over rows.
  const auto rows = CutSequences(Ids({Counting(10), Counting(10, 50), Counting(10, 90)}), Positions(64),
                                 {.tokens = 13, .from = TakeFrom::kStart});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[1].tokens, ElementsAre(50, 51, 52));
}

TEST(SequencesTest, ImpossibleWindowsAreRefused) {
  TokenInput text{.sequences = {Counting(100)}, .bos = 7};
  const TokenInput ids = Ids({Counting(100)});
  const auto refuses = [](const TokenInput& input, WindowOptions options, const char* why) {
    EXPECT_THAT([&] { CutSequences(input, Positions(64), options); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refuses(text, {.window = 65}, "--window: got 65, expected 2 to 64");
  refuses(text, {.window = 1}, "--window: got 1, expected 2 to 64");
  refuses(ids, {.window = 65}, "--window: got 65, expected 1 to 64");
  refuses(ids, {.window = -3}, "--window: got -3");
  refuses(text, {.window = 10, .stride = 10}, "--stride: got 10, expected 1 to 9");
  refuses(ids, {.window = 10, .stride = 10}, "--stride: got 10, expected 1 to 9");
  refuses(ids, {.window = 10, .stride = -1}, "--stride: got -1");
}

TEST(SequencesTest, BatchesHold2048RowsOrOneSequence) {
  const auto per_batch = [](size_t longest) {
    return SequencesPerBatch({{.tokens = {1}}, {.tokens = std::vector<int32_t>(longest)}});
  };
  EXPECT_EQ(per_batch(1), 2048);
  EXPECT_EQ(per_batch(512), 4);
  EXPECT_EQ(per_batch(513), 3);
  EXPECT_EQ(per_batch(2048), 1);
  EXPECT_EQ(per_batch(100000), 1);
}

TEST(SequencesTest, AllOfThemRunInOrderBatchByBatch) {
  Model model(GoldenFolder("llama-old-config"));
  std::vector<ScoredSequence> sequences;
  for (int i = 0; i < 60; ++i)
    sequences.push_back({.tokens = std::vector<int32_t>(static_cast<size_t>(i == 3 ? 200 : 150), i)});
  std::vector<size_t> begins;
  std::vector<std::pair<int64_t, int64_t>> reports;
  const Progress progress = [&](int64_t done, int64_t total, const char* unit) {
    EXPECT_STREQ(unit, "tokens");
    reports.emplace_back(done, total);
  };
  ForwardAll(model, {}, sequences, progress, [&](const TokenBatch& batch) {
    const auto begin = static_cast<size_t>(batch.sequences.front().index);
    begins.push_back(begin);
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      EXPECT_EQ(batch.sequences[i].index, static_cast<int64_t>(begin + i));
      EXPECT_EQ(batch.tokens[static_cast<size_t>(batch.sequences[i].first_row)], static_cast<int32_t>(begin + i));
    }
  });
  EXPECT_THAT(begins, ElementsAre(0, 10, 20, 30, 40, 50));  // 2,048 rows hold ten of the longest
  ASSERT_EQ(reports.size(), 6u);
  EXPECT_EQ(reports[0], std::pair(int64_t{1550}, int64_t{9050}));
  EXPECT_EQ(reports[5], std::pair(int64_t{9050}, int64_t{9050}));
}

// Chunks of every sequence, in order, each after what its cache holds; every row is seen once.
TEST(SequencesTest, ThroughCachesEveryTokenComesOnceInOrder) {
  Model model(GoldenFolder("llama-old-config"));
  const std::vector<ScoredSequence> sequences = {{.tokens = Counting(90)}, {.tokens = Counting(64, 20)}};
  for (const int64_t last : {0, 3}) {
    const int64_t chunk = last > 0 ? 1 : 512;
    std::vector<std::vector<int32_t>> seen(2);
    int64_t reported = 0;
    ForwardAll(
        model, {}, sequences,
        [&](int64_t done, int64_t total, const char*) {
          EXPECT_EQ(total, 154);
          reported = done;
        },
        [&](const TokenBatch& batch) {
          for (const AttentionSequence& s : batch.sequences) {
            std::vector<int32_t>& tokens = seen.at(static_cast<size_t>(s.index));
            EXPECT_EQ(s.past, std::ssize(tokens));
            EXPECT_LE(s.prefix, chunk);
            const auto first = batch.tokens.begin() + s.first_row;
            tokens.insert(tokens.end(), first, first + s.prefix);
          }
        },
        ParseCachePlan(Formatted("cache_k=int8/token,last={}", last)));
    EXPECT_EQ(seen[0], sequences[0].tokens);
    EXPECT_EQ(seen[1], sequences[1].tokens);
    EXPECT_EQ(reported, 154);
  }
}

// Whether sequences come whole or in chunks, the same tokens are scored, each at its own place.
TEST(SequencesTest, ScoredTokensHaveTheirPlaceHoweverTheyCome) {
  const std::vector<ScoredSequence> sequences = {{.tokens = Counting(5)},
                                                 {.tokens = Counting(4, 10), .first_target = 3}};
  const ScoredTokens scored(sequences);
  ASSERT_EQ(scored.size(), 5u);
  TokenBatch whole;
  for (int64_t i = 0; i < 2; ++i) whole.Add(i, sequences[static_cast<size_t>(i)].tokens);
  const PredictedTokens all = scored.In(whole);
  EXPECT_THAT(all.rows, ElementsAre(0, 1, 2, 3, 7));
  EXPECT_THAT(all.targets, ElementsAre(1, 2, 3, 4, 13));
  EXPECT_THAT(all.contexts, ElementsAre(1, 2, 3, 4, 3));
  EXPECT_THAT(all.windows, ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(all.places, ElementsAre(0, 1, 2, 3, 4));
  TokenBatch chunk;  // tokens 2 and 3 of each: the row of token 2 predicts token 3, that of 3 what comes after
  for (int64_t i = 0; i < 2; ++i) {
    chunk.Add(i, std::span(sequences[static_cast<size_t>(i)].tokens).subspan(2, 2));
    chunk.sequences.back().past = 2;
  }
  const PredictedTokens some = scored.In(chunk);
  EXPECT_THAT(some.rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(some.targets, ElementsAre(3, 4, 13));
  EXPECT_THAT(some.contexts, ElementsAre(3, 4, 3));
  EXPECT_THAT(some.windows, ElementsAre(0, 0, 1));
  EXPECT_THAT(some.places, ElementsAre(2, 3, 4));
}

TEST(ModelInputTest, ImagesOfAVisionTower) {
  const std::filesystem::path folder = GoldenFolder("diffclip-vision"), file = folder / "expected.safetensors";
  Model tower(folder);
  const TokenInput input = LoadModelInput(file, tower);
  ASSERT_NE(tower.images(), nullptr);
  ASSERT_EQ(std::ssize(input.sequences), tower.images()->size());
  EXPECT_EQ(std::ssize(input.sequences[0]), 1 + tower.config().Patches());
  const TokenInput alone = IdsOf(Images(file, tower.config()), file);
  EXPECT_EQ(alone.sequences, input.sequences);
  EXPECT_EQ(alone.sha256, input.sha256);
}

TEST(ModelInputTest, IdsOfEveryOtherModel) {
  const std::filesystem::path folder = GoldenFolder("clip-text");
  Model tower(folder);
  const TokenInput input = LoadModelInput(folder / "expected.safetensors", tower);
  EXPECT_EQ(tower.images(), nullptr);
  EXPECT_EQ(std::ssize(input.sequences[0]), 12);
  EXPECT_EQ(LoadTokenInput(folder / "expected.safetensors", folder, tower.config().vocabulary).sequences,
            input.sequences);
}

TEST(ModelInputTest, AFileWithoutTheModelsInputIsRefused) {
  Model vision(GoldenFolder("clip-vision"));
  const std::filesystem::path ids = GoldenFolder("clip-text") / "expected.safetensors";
  EXPECT_THAT(Call([&] { LoadModelInput(ids, vision); }), ThrowsMessage<Error>(HasSubstr("images: missing")));
}

TEST(Shard, IsParsed) {
  EXPECT_EQ(ParseShard("--shard", "2/5").index, 2u);
  EXPECT_EQ(ParseShard("--shard", "2/5").count, 5u);
  for (const char* text : {"", "1", "1/", "/2", "2/2", "0/0", "-1/2", "1/2x", "1 /2", "0x0/2"})
    EXPECT_THAT([&] { ParseShard("--cut", text); }, ThrowsMessage<Error>(HasSubstr("--cut: got '"))) << text;
}

}  // namespace

}  // namespace tare::sequences_test
