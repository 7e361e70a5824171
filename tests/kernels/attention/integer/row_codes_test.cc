// SPDX-License-Identifier: Apache-2.0
// Four rows at once against quant/format/round.h, code for code, on every target.
#include "kernels/attention/integer/row_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/format/round.h"
#include "tests/support/each_target.h"
#include "tests/support/random_quantized.h"

namespace tare::row_codes_test {
namespace {

constexpr int kWidths[] = {1, 3, 4, 15, 16, 17, 63, 64, 65, 128, 130, 1024};
constexpr Format kFormats3[] = {Format::kInt8, Format::kInt6, Format::kInt4};

TEST(RowCodes, EveryWidthFormatAndOffsetIsTheRule) {
  for (const int width : kWidths) {
    std::vector<float> x = RandomNormal(static_cast<size_t>(4 * width), 1);
    std::fill_n(x.begin() + 2 * width, width, 0.0f);  // a row of zeros
    const std::vector<float> mean = RandomNormal(static_cast<size_t>(width), 2);
    const std::array<const float*, 4> rows = {&x[0], &x[width], &x[2 * width], &x[3 * width]};
    for (const Format& format : kFormats3) {
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

TEST(RowCodes, NotFiniteIsSeenWhereverItStands) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (int at = 0; at < 70; ++at) {
      std::vector<float> x(70, 1.0f), spoilt = x;
      spoilt[at] = bad;
      OnEachTarget(kAllTargets, [&] {
        RowCodes got;
        ToRowCodes({x.data(), spoilt.data(), x.data(), x.data()}, 70, nullptr, Format::kInt8, CodeOffset::kNone, got);
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

}  // namespace
}  // namespace tare::row_codes_test
