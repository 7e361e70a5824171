// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/row_block.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/aligned.h"
#include "tests/support/call.h"
#include "tests/support/random_attention.h"

namespace tare::row_block_test {
namespace {

constexpr Mask kMasks[] = {{Mask::Kind::kFull}, {Mask::Kind::kCausal}, {Mask::Kind::kWindow, 37}};

TEST(RowBlock, RowsAreAMultipleOf16UpTo64) {
  for (const auto& [queries, rows] : {std::pair{1, 16}, {16, 16}, {17, 32}, {64, 64}, {1000, 64}})
    EXPECT_EQ(RowsFor(queries), rows) << queries;
}

// Every row of every head once, the last of a head first, and no tile outside that a row sees.
TEST(RowBlock, BlocksCoverAllRowsAndTheTilesThatTheySee) {
  for (const Mask& mask : kMasks) {
    for (const int64_t keys : {30, 70, 200}) {
      RandomAttention in({.heads = 3, .queries = 70, .keys = keys, .mask = mask});
      std::set<std::pair<int, int64_t>> seen;
      for (int64_t index = 0; index < 3 * 3; ++index) {
        const RowBlock block = BlockOfRows(in.problem, 32, 3, index);
        EXPECT_EQ(block.head, index / 3);
        if (index % 3 == 0) {
          EXPECT_EQ(block.first + block.count, 70);
        }
        for (int r = 0; r < block.count; ++r) {
          EXPECT_TRUE(seen.insert({block.head, block.first + r}).second);
          const KeyRange range = mask.Keys(block.first + r, 70, keys);
          if (range.begin == range.end) continue;
          EXPECT_LE(block.begin_tile, range.begin / 64);
          EXPECT_GE(block.end_tile, (range.end + 63) / 64);
        }
        EXPECT_LE(block.end_tile, (keys + 63) / 64);
      }
      EXPECT_EQ(seen.size(), 3u * 70);
    }
  }
}

TEST(RowBlock, MasksAreThoseOfTheProblem) {
  for (const Mask& mask : kMasks) {
    RandomAttention in({.heads = 1, .queries = 70, .keys = 200, .mask = mask});
    for (int64_t index = 0; index < 3; ++index) {
      const RowBlock block = BlockOfRows(in.problem, 32, 3, index);
      for (int64_t tile = 0; tile < 4; ++tile) {
        int32_t begin[32], end[32];
        const bool masked = MaskTile(in.problem, block, 32, tile, begin, end);
        for (int r = 0; r < 32; ++r) {
          const KeyRange range = r < block.count ? mask.Keys(block.first + r, 70, 200) : KeyRange{};
          for (int i = 0; i < 64; ++i) {
            const bool sees = tile * 64 + i >= range.begin && tile * 64 + i < range.end;
            const bool got = masked ? i >= begin[r] && i < end[r] : r >= block.count ? sees : true;
            ASSERT_EQ(got, sees) << r << ' ' << tile << ' ' << i;
          }
        }
      }
    }
  }
}

TEST(RowBlock, LambdaIsZeroWhereThereIsNoRowOrNoSecondMap) {
  RandomAttention two({.heads = 2, .queries = 20}), one({.family = HeadKind::kStandard, .queries = 20});
  float lambda[32];
  LoadLambda(two.problem, {.head = 1, .first = 3, .count = 17}, 32, lambda);
  for (int r = 0; r < 32; ++r) EXPECT_EQ(lambda[r], r < 17 ? two.lambda[(3 + r) * 2 + 1] : 0.0f);
  LoadLambda(one.problem, {.head = 1, .first = 3, .count = 17}, 32, lambda);
  for (const float x : lambda) EXPECT_EQ(x, 0.0f);
}

TEST(RowBlock, ZerosAreWrittenToItsRowsAlone) {
  RandomAttention in({.heads = 2, .queries = 20});
  WriteZeros(in.problem, {.head = 1, .first = 3, .count = 10});
  for (int64_t t = 0; t < 20; ++t) {
    for (int head = 0; head < 2; ++head) {
      for (int i = 0; i < in.problem.out.width; ++i)
        ASSERT_EQ(in.problem.out.Row(t, head)[i], head == 1 && t >= 3 && t < 13 ? 0.0f : 99.0f);
    }
  }
}

// The orders of a tile's keys are those that two packs within 128 bits make, done here one value at a time.
using Lanes = std::vector<int>;

// Every four (eight) values of a, then as many of b.
Lanes Packed(const Lanes& a, const Lanes& b, size_t block) {
  Lanes packed;
  for (size_t i = 0; i < a.size(); i += block) {
    packed.insert(packed.end(), a.begin() + i, a.begin() + i + block);
    packed.insert(packed.end(), b.begin() + i, b.begin() + i + block);
  }
  return packed;
}

TEST(TileOrder, TwoPacksPutTheKeysInOrder) {
  Lanes columns[4];
  for (int column = 0; column < 64; ++column) columns[column / 16].push_back(KeyOfColumn(column));
  const Lanes low = Packed(columns[0], columns[1], 4), high = Packed(columns[2], columns[3], 4);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(KeyOfExp(i), i < 32 ? low[i] : high[i - 32]) << i;
  const Lanes keys = Packed(low, high, 8);
  for (int key = 0; key < 64; ++key) EXPECT_EQ(keys[key], key);
}

TEST(TileOrder, BothWaysAndInTables) {
  for (int key = 0; key < 64; ++key) {
    EXPECT_EQ(KeyOfColumn(ColumnOfKey(key)), key);
    EXPECT_EQ(KeyOfExp(ExpOfKey(key)), key);
    EXPECT_EQ(ColumnOfKey(key), ColumnOfKey(key / 4 * 4) + key % 4);
    EXPECT_EQ(kColumnKeys[static_cast<size_t>(ColumnOfKey(key))], key);
    EXPECT_EQ(kExpKeys[static_cast<size_t>(ExpOfKey(key))], key);
  }
}

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Piece {
  char* bytes;
  double* numbers;
};

struct ToyLayout {
  Piece TakePacked(Arena& arena) const { return {arena.Take<char>(65), arena.Take<double>(3)}; }
  Piece TakeScratch(Arena& arena) const { return {arena.Take<char>(0), arena.Take<double>(17)}; }
};

TEST(Workspace, PiecesBeginOnCacheLines) {
  Arena arena(1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.Take<char>(1)), uintptr_t{1} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.Take<float>(16)), (1 << 20) + 64u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.Take<float>(17)), (1 << 20) + 128u);
  EXPECT_EQ(arena.used(), 256u);
  EXPECT_EQ(arena.end(), (1 << 20) + 256u);
}

TEST(Workspace, ScratchesFollowThePackedOneAfterTheOther) {
  SetThreads(3);
  const ToyLayout layout;
  ASSERT_EQ(BytesOf(layout), 128u + 64 + 3 * 192);
  AlignedBuffer<std::byte> memory(BytesOf(layout));
  const Workspace workspace(layout, memory.span());
  const auto offset = [&](const void* piece) { return static_cast<const std::byte*>(piece) - memory.data(); };
  EXPECT_EQ(offset(workspace.Packed().bytes), 0);
  EXPECT_EQ(offset(workspace.Packed().numbers), 128);
  for (int thread = 0; thread < 3; ++thread)
    EXPECT_EQ(offset(workspace.Scratch(thread).numbers), 192 + thread * 192) << thread;
  SetThreads(0);
}

TEST(Workspace, IsForTheThreadsThatTheCallStates) {
  const ThreadsOfCalls three(3);
  EXPECT_EQ(BytesOf(ToyLayout()), 128u + 64 + 3 * 192);
}

TEST(Workspace, RefusesMemoryThatIsTooSmallOrMisaligned) {
  SetThreads(1);
  const ToyLayout layout;
  AlignedBuffer<std::byte> memory(1024);
  EXPECT_THAT(Call([&] { Workspace(layout, memory.span().first(383)); }),
              ThrowsMessage<Error>(HasSubstr("attention workspace: got 383 bytes, expected 384")));
  EXPECT_THAT(Call([&] { Workspace(layout, memory.span().subspan(32)); }),
              ThrowsMessage<Error>(HasSubstr("attention workspace: got a pointer off the 64-byte boundary")));
  SetThreads(0);
}

}  // namespace

}  // namespace tare::row_block_test
