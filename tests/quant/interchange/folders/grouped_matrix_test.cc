// SPDX-License-Identifier: Apache-2.0
// Against a reference that takes one bit at a time.
#include "quant/interchange/folders/grouped_matrix.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "quant/format/grid.h"
#include "quant/format/pack.h"

namespace tare::grouped_matrix_test {
namespace {

struct Packing {
  std::vector<uint32_t> words;
  std::vector<uint32_t> codes;  // [streams, count]
};

Packing Pack(int64_t streams, int64_t count, int bits, int per_word, std::mt19937& random) {
  const int64_t words = WordsOf(count, bits, per_word, 32);
  Packing p{std::vector<uint32_t>(static_cast<size_t>(streams * words)), {}};
  for (int64_t s = 0; s < streams; ++s) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t code = random() & ((1u << bits) - 1);
      p.codes.push_back(code);
      for (int b = 0; b < bits; ++b) {
        const int64_t bit = per_word != 0 ? i / per_word * 32 + i % per_word * bits + b : i * bits + b;
        p.words[static_cast<size_t>(s * words + bit / 32)] |= ((code >> b) & 1u) << (bit % 32);
      }
    }
  }
  return p;
}

TEST(PackedCodes, EveryWidthWithAndWithoutGaps) {
  std::mt19937 random(1);
  for (int bits = 1; bits <= 8; ++bits) {
    for (const int per_word : {0, 32 / bits}) {
      for (const int64_t count : {1, 7, 31, 32, 33, 75}) {
        const Packing p = Pack(3, count, bits, per_word, random);
        PackedCodes codes{.words = reinterpret_cast<const std::byte*>(p.words.data()),
                          .bits = bits,
                          .per_word = per_word,
                          .stream_step = WordsOf(count, bits, per_word, 32)};
        std::vector<uint8_t> row(static_cast<size_t>(count)), across(3);
        for (int64_t s = 0; s < 3; ++s) {
          codes.along_rows = true;
          codes.Row(s, count, row.data());
          for (int64_t i = 0; i < count; ++i) {
            const uint32_t expected = p.codes[static_cast<size_t>(s * count + i)];
            EXPECT_EQ(row[static_cast<size_t>(i)], expected) << bits << " " << per_word << " " << s << " " << i;
            codes.along_rows = true;
            EXPECT_EQ(codes.At(s, i), expected);
            codes.along_rows = false;
            EXPECT_EQ(codes.At(i, s), expected);
            codes.Row(i, 3, across.data());
            EXPECT_EQ(across[static_cast<size_t>(s)], expected);
          }
        }
      }
    }
  }
}

// AWQ's layout: a word holds a column's codes of eight rows, in an order of its own.
TEST(PackedCodes, RowsTogetherAreTheRowsOneByOne) {
  std::mt19937 random(2);
  for (const int64_t out : {8, 40, 72}) {
    for (const int64_t in : {1, 7, 8, 61}) {
      const Packing p = Pack(in, out, 4, 8, random);
      const PackedCodes codes{.words = reinterpret_cast<const std::byte*>(p.words.data()),
                              .per_word = 8,
                              .stream_step = out / 8,
                              .place = {0, 4, 1, 5, 2, 6, 3, 7},
                              .along_rows = false};
      ASSERT_TRUE(codes.SharesWords());
      const int64_t stride = in + 3, first = out > 8 ? 8 : 0;
      std::vector<uint8_t> rows(static_cast<size_t>((out - first) * stride), 99), row(static_cast<size_t>(in));
      codes.Rows(first, out - first, in, stride, rows.data());
      for (int64_t r = first; r < out; ++r) {
        codes.Row(r, in, row.data());
        for (int64_t i = 0; i < in; ++i)
          EXPECT_EQ(rows[static_cast<size_t>((r - first) * stride + i)], row[static_cast<size_t>(i)]) << r << " " << i;
        EXPECT_EQ(rows[static_cast<size_t>((r - first) * stride + in)], 99) << "after a row";
      }
    }
  }
}

TEST(PackedCodes, WordsThatAStreamTakes) {
  EXPECT_EQ(WordsOf(33, 3, 0, 32), 4);  // 99 bits
  EXPECT_EQ(WordsOf(33, 3, 10, 32), 4);
  EXPECT_EQ(WordsOf(64, 3, 10, 32), 7);
  EXPECT_EQ(WordsOf(int64_t{1} << 40, 8, 0, 32), int64_t{1} << 38);
}

TEST(GroupedMatrix, ValuesOfCodes) {
  EXPECT_EQ(IntegerValues(8)[3], -5.0f);
  EXPECT_EQ(SignedByteValues()[0x80], -128.0f);
  EXPECT_EQ(SignedByteValues()[0x7f], 127.0f);
}

// Every code is a value of the grid, and rounding leaves it; bit 7 or 3 is the sign.
TEST(GroupedMatrix, FloatsAreTheirGrids) {
  const std::array<float, 256> eight = StoredValues(Format::kFp8E4M3), four = StoredValues(Format::kMxFp4);
  for (size_t code = 0; code < 128; ++code) {
    EXPECT_EQ(std::isnan(eight[code]), code == 127);
    if (code == 127) continue;
    EXPECT_EQ(Nearest(eight[code], kE4M3), eight[code]);
    EXPECT_EQ(eight[code + 128], -eight[code]);
    if (code > 0) {
      EXPECT_GT(eight[code], eight[code - 1]);
    }
  }
  EXPECT_EQ(eight[126], 448.0f);
  EXPECT_EQ(eight[1], 0x1p-9f);
  for (size_t code = 0; code < 8; ++code) {
    EXPECT_EQ(Nearest(four[code], kE2M1), four[code]);
    EXPECT_EQ(four[code + 8], -four[code]);
    if (code > 0) {
      EXPECT_GT(four[code], four[code - 1]);
    }
  }
  EXPECT_TRUE(std::signbit(four[8]));
  EXPECT_TRUE(std::isnan(four[16]));
}

}  // namespace

}  // namespace tare::grouped_matrix_test
