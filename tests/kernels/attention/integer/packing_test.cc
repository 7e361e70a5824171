// SPDX-License-Identifier: Apache-2.0
// Codes and layouts against quant/format/round.h, one value at a time: widths that fill no vector, rows that lie apart
// with NaN between, tiles that end early. On every target.
#include "kernels/attention/integer/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention/tile_order.h"
#include "quant/base/error.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/each_target.h"
#include "tests/support/random_attention.h"
#include "tests/support/random_quantized.h"

namespace tare::packing_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Format kSigned[] = {Format::kInt8, Format::kInt6, Format::kInt4};

RandomAttention Tensors(int d, int width) {
  return RandomAttention({.queries = 70, .keys = 70, .d = d, .v_width = width, .pad = 3});
}

// x - mean of one row, its scale, and its codes.
struct CodedRow {
  CodedRow(const float* x, const float* mean, int width, Format format) {
    float absmax = 0;
    for (int i = 0; i < width; ++i) absmax = std::max(absmax, std::abs(mean == nullptr ? x[i] : x[i] - mean[i]));
    scale = ScaleFor(absmax, format);
    for (int i = 0; i < width; ++i) codes.push_back(CodeOf(mean == nullptr ? x[i] : x[i] - mean[i], scale.inv, format));
  }
  Scale scale;
  std::vector<int> codes;
};

TEST(Packing, QueriesAreUnsignedRowsPaddedToFour) {
  for (const int d : {1, 6, 64, 130}) {
    RandomAttention in = Tensors(d, 8);
    const std::vector<float> mean = RandomNormal(static_cast<size_t>(d), 3);
    const int d4 = (d + 3) / 4 * 4;
    for (const Format& format : kSigned) {
      for (const float* smooth : {static_cast<const float*>(nullptr), mean.data()}) {
        OnEachTarget(kAllTargets, [&] {
          std::vector<uint8_t> codes(static_cast<size_t>(7 * d4 + 1), 77);
          float scales[7];
          PackQueries(in.problem.q, 1, 63, 7, format, smooth, codes.data(), scales);
          for (int r = 0; r < 7; ++r) {
            const CodedRow want(in.problem.q.Row(63 + r, 1), smooth, d, format);
            ASSERT_EQ(scales[r], want.scale.scale);
            for (int i = 0; i < d4; ++i)
              ASSERT_EQ(codes[r * d4 + i], 128 + (i < d ? want.codes[i] : 0)) << r << ' ' << i;
          }
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
    for (const Format& format : kSigned) {
      OnEachTarget(kAllTargets, [&] {
        std::vector<int8_t> tile(static_cast<size_t>(groups) * 256, 77);
        int32_t offsets[64];
        float scales[64];
        for (int key = 0; key < 64; key += 4)
          PackFourKeys(in.problem.k, 1, 64 + key, format, mean.data(), tile.data(), offsets, scales);
        for (int key = 0; key < 64; ++key) {
          const bool exists = key < 6;
          const int column = ColumnOfKey(key);
          const CodedRow row(in.problem.k.Row(exists ? 64 + key : 0, 1), mean.data(), d, format);
          int sum = 0;
          for (int i = 0; i < groups * 4; ++i) {
            const int want = exists && i < d ? row.codes[i] : 0;
            ASSERT_EQ(tile[(i / 4 * 64 + column) * 4 + i % 4], want) << key << ' ' << i;
            sum += want;
          }
          ASSERT_EQ(offsets[column], -128 * sum);
          ASSERT_EQ(scales[column], exists ? row.scale.scale : 0.0f);
        }
      });
    }
  }
}

TEST(Packing, ValuesShareAScalePerColumn) {
  for (const int width : {1, 5, 64, 66, 200}) {
    RandomAttention in = Tensors(4, width);
    const std::vector<float> mean = RandomNormal(static_cast<size_t>(width), 3);
    const int columns = (width + 63) / 64 * 64;
    for (const Format& format : kSigned) {
      for (const float* smooth : {static_cast<const float*>(nullptr), mean.data()}) {
        OnEachTarget(kAllTargets, [&] {
          const auto value = [&](int64_t t, int i) {
            const float x = in.problem.v.Row(t, 0)[i];
            return smooth == nullptr ? x : x - smooth[i];
          };
          std::vector<float> absmax(static_cast<size_t>(columns), 77.0f);
          ValueAbsMax(in.problem.v, 0, 64, 6, smooth, absmax.data());
          std::vector<int8_t> codes(static_cast<size_t>(columns) * 64, 77);
          std::vector<int32_t> sums(static_cast<size_t>(columns), 1000);
          PackValueTile(in.problem.v, 0, 1, format, smooth, absmax.data(), codes.data(), 64 * 64, sums.data());
          for (int i = 0; i < columns; ++i) {
            float largest = 0;
            for (int64_t t = 64; t < 70 && i < width; ++t) largest = std::max(largest, std::abs(value(t, i)));
            ASSERT_EQ(absmax[i], largest) << i;
            int sum = 1000;
            for (int key = 0; key < 64; ++key) {
              const bool exists = i < width && key < 6;
              const int want = exists ? CodeOf(value(64 + key, i), ScaleFor(largest, format).inv, format) : 0;
              ASSERT_EQ(codes[i / 64 * 4096 + (key / 4 * 64 + i % 64) * 4 + key % 4], want) << key << ' ' << i;
              sum += want;
            }
            ASSERT_EQ(sums[i], sum) << i;
          }
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

}  // namespace
}  // namespace tare::packing_test
