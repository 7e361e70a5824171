// SPDX-License-Identifier: Apache-2.0
// Codes and layouts against quant/format/round.h, one value at a time: widths that fill no vector, rows that lie apart
// with NaN between, tiles that end early. On every target.
#include "kernels/attention/integer/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "hwy/detect_targets.h"
#include "hwy/targets.h"
#include "kernels/attention/row_block.h"
#include "quant/base/message.h"
#include "quant/format/round.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/call.h"
#include "tests/support/each_target.h"
#include "tests/support/normal_floats.h"
#include "tests/support/packed_codes.h"
#include "tests/support/random_attention.h"
#include "tests/support/random_quantized.h"

namespace tare::packing_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

RandomAttention Tensors(int d, int width) {
  return RandomAttention({.queries = 70, .keys = 70, .d = d, .v_width = width, .pad = 3});
}

TEST(Packing, QueriesAreUnsignedRowsPaddedToFour) {
  for (const int d : {1, 6, 64, 130}) {
    RandomAttention in = Tensors(d, 8);
    const std::vector<float> mean = RandomNormal(static_cast<size_t>(d), 3);
    const int d4 = (d + 3) / 4 * 4;
    for (const Format& format : kSignedFormats) {
      for (const float* smooth : {static_cast<const float*>(nullptr), mean.data()}) {
        OnEachTarget(kAllTargets, [&] {
          std::vector<uint8_t> codes(static_cast<size_t>(7 * d4 + 1), 77);
          float scales[7];
          PackQueries(in.problem.q, 1, 63, 7, format, smooth, codes.data(), scales);
          ASSERT_EQ(WrongQueries(in.problem.q, 1, 63, 7, format, smooth, codes.data(), scales), "");
          ASSERT_EQ(codes.back(), 77);
        });
      }
    }
  }
}

TEST(Packing, KeysAfterTheLastAreZeros) {
  for (const int d : {1, 6, 64, 130}) {
    RandomAttention in = Tensors(d, 8);
    const std::vector<float> mean = RandomNormal(static_cast<size_t>(d), 3);
    const int groups = (d + 3) / 4;
    for (const Format& format : kSignedFormats) {
      OnEachTarget(kAllTargets, [&] {
        std::vector<int8_t> tile(static_cast<size_t>(groups) * 256, 77);
        int32_t offsets[64];
        float scales[64];
        for (int key = 0; key < 64; key += 4)
          PackFourKeys(in.problem.k, 1, 64 + key, format, mean.data(), tile.data(), offsets, scales);
        ASSERT_EQ(WrongKeys(in.problem.k, 1, 64, format, mean.data(), tile.data(), offsets, scales), "");
      });
    }
  }
}

TEST(Packing, ValuesShareAScalePerColumn) {
  for (const int width : {1, 5, 64, 66, 200}) {
    RandomAttention in = Tensors(4, width);
    const std::vector<float> mean = RandomNormal(static_cast<size_t>(width), 3);
    const int columns = (width + 63) / 64 * 64;
    for (const Format& format : kSignedFormats) {
      for (const float* smooth : {static_cast<const float*>(nullptr), mean.data()}) {
        OnEachTarget(kAllTargets, [&] {
          std::vector<float> absmax(static_cast<size_t>(columns), 77.0f);
          ValueAbsMax(in.problem.v, 0, 64, 6, smooth, absmax.data());
          std::vector<int8_t> codes(static_cast<size_t>(columns) * 64, 77);
          std::vector<int32_t> sums(static_cast<size_t>(columns), 1000);
          PackValueTile(in.problem.v, 0, 1, format, smooth, absmax.data(), codes.data(), 64 * 64, sums.data());
          ASSERT_EQ(WrongValueTile(in.problem.v, 0, 1, format, smooth, absmax.data(), codes.data(), sums.data(), 1000),
                    "");
        });
      }
    }
  }
}

TEST(Packing, TheMeanThatOverflowsIsNamed) {
  RandomAttention in = Tensors(4, 4);
  const_cast<float*>(in.problem.q.Row(3, 0))[1] = 3e38f;
  const std::vector<float> mean(4, -3e38f);
  uint8_t codes[4];
  float scale;
  EXPECT_THAT(Call([&] { PackQueries(in.problem.q, 0, 3, 1, Format::kInt8, mean.data(), codes, &scale); }),
              ThrowsMessage<Error>(HasSubstr("overflow float32 once the smoothing vector is subtracted")));
}

// Four rows at once against quant/format/round.h, code for code.
constexpr int kWidths[] = {1, 3, 4, 15, 16, 17, 63, 64, 65, 128, 130, 1024};

TEST(RowCodes, EveryWidthFormatAndOffsetIsTheRule) {
  for (const int width : kWidths) {
    std::vector<float> x = RandomNormal(static_cast<size_t>(4 * width), 1);
    std::fill_n(x.begin() + 2 * width, width, 0.0f);  // a row of zeros
    const std::vector<float> mean = RandomNormal(static_cast<size_t>(width), 2);
    const std::array<const float*, 4> rows = {&x[0], &x[width], &x[2 * width], &x[3 * width]};
    for (const Format& format : kSignedFormats) {
      for (const CodeOffset offset : {CodeOffset::kNone, CodeOffset::kUnsigned}) {
        for (const float* minus : {static_cast<const float*>(nullptr), mean.data()}) {
          OnEachTarget(kAllTargets, [&] {
            RowCodes got;
            ToRowCodes(rows, width, minus, format, offset, got);
            for (int r = 0; r < 4; ++r) {
              const auto value = [&](int i) { return minus == nullptr ? rows[r][i] : rows[r][i] - minus[i]; };
              float absmax = 0;
              for (int i = 0; i < width; ++i) absmax = std::max(absmax, std::abs(value(i)));
              const Scale scale = ScaleFor(absmax, format);
              ASSERT_EQ(got.scales[r], scale.scale);
              int sum = 0;
              for (int i = 0; i < width; ++i) {
                const int code = CodeOf(value(i), scale.inv, format);
                sum += code;
                ASSERT_EQ(got.codes[r][i], static_cast<uint8_t>(code + static_cast<int>(offset))) << r << ' ' << i;
              }
              ASSERT_EQ(got.sums[r], sum) << width;
              for (int i = width; i < (width + 63) / 64 * 64; ++i)
                ASSERT_EQ(got.codes[r][i], static_cast<uint8_t>(offset));
            }
          });
        }
      }
    }
  }
}

// A scale that rows share with others, whose magnitudes are larger, and smaller ones, which change nothing.
TEST(RowCodes, ScalesAreOfTheLargerMagnitude) {
  const std::vector<float> x = RandomNormal(4 * 66, 1);
  const std::array<const float*, 4> rows = {&x[0], &x[66], &x[132], &x[198]};
  OnEachTarget(kAllTargets, [&] {
    RowCodes got;
    ToRowCodes(rows, 66, nullptr, Format::kInt8, CodeOffset::kNone, got, {0.0f, 100.0f, 0.01f, 7.0f});
    for (int r = 0; r < 4; ++r) {
      const Scale scale = ScaleFor(r == 1 ? 100.0f : r == 3 ? 7.0f : AbsMax({rows[r], 66}), Format::kInt8);
      ASSERT_EQ(got.scales[r], scale.scale) << r;
      for (int i = 0; i < 66; ++i)
        ASSERT_EQ(static_cast<int8_t>(got.codes[r][i]), CodeOf(rows[r][i], scale.inv, Format::kInt8)) << r << ' ' << i;
    }
  });
}

TEST(RowCodes, NotFiniteIsSeenWhereverItStands) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (int at = 0; at < 70; ++at) {
      std::vector<float> x(70, 1.0f), spoilt = x;
      spoilt[at] = bad;
      OnEachTarget(kAllTargets, [&] {
        RowCodes got;
        ToRowCodes({x.data(), spoilt.data(), x.data(), x.data()}, 70, nullptr, Format::kInt8, CodeOffset::kNone, got,
                   {2.0f, 2.0f, 2.0f, 2.0f});
        for (int r = 0; r < 4; ++r) ASSERT_EQ(std::isfinite(got.scales[r]), r != 1) << at;
      });
    }
  }
}

TEST(RowCodes, InterleavedKeysLieInGroupsOfFourChannels) {
  RowCodes rows;
  for (int r = 0; r < 4; ++r)
    for (int i = 0; i < kLargestWidth; ++i) rows.codes[r][i] = static_cast<uint8_t>(r * 61 + i);
  for (const int groups : {1, 2, 3, 4, 5, 32}) {
    for (const int first : {0, 4, 60}) {
      OnEachTarget(kAllTargets, [&] {
        std::vector<int8_t> tile(static_cast<size_t>(groups) * 256, 77);
        InterleaveRows(rows, groups, first, tile.data());
        for (int i = 0; i < groups * 256; ++i) {
          const int group = i / 256, key = i % 256 / 4 - first, channel = group * 4 + i % 4;
          const int want = key >= 0 && key < 4 ? static_cast<int8_t>(rows.codes[key][channel]) : 77;
          ASSERT_EQ(tile[i], want) << groups << ' ' << first << ' ' << i;
        }
      });
    }
  }
}

// The bits of std::fma in order, on every instruction set that has it; widths that do not fill their last group of 4.
TEST(KeyBias, IsTheSumInOrder) {
  std::mt19937 random(1);
  NormalFloats normal;
  for (const int width : {1, 3, 4, 18, 128}) {
    std::vector<int8_t> codes((width + 3) / 4 * 256);
    std::vector<float> mean(width), scales(64), bias(64);
    for (int8_t& code : codes) code = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    for (float& x : mean) x = normal(random);
    for (float& x : scales) x = std::fabs(normal(random));
    for (const int64_t target : {HWY_AVX2, HWY_AVX3, HWY_AVX3_DL}) {
      if ((hwy::SupportedTargets() & target) == 0) continue;
      hwy::SetSupportedTargetsForTest(target);
      KeyBias(codes.data(), width, mean.data(), scales.data(), bias.data());
      hwy::SetSupportedTargetsForTest(0);
      for (int key = 0; key < 64; ++key) {
        float sum = 0;
        for (int i = 0; i < width; ++i)
          sum = std::fma(mean[i], static_cast<float>(codes[i / 4 * 256 + key * 4 + i % 4]), sum);
        ASSERT_EQ(bias[key], sum * scales[key]) << hwy::TargetName(target) << ", width " << width << ", key " << key;
      }
    }
  }
}

}  // namespace
}  // namespace tare::packing_test
