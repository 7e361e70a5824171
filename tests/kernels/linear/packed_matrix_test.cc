// SPDX-License-Identifier: Apache-2.0
// Every code comes back from its place in the panels.
#include "kernels/linear/packed_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quant/base/message.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/call.h"
#include "tests/support/each_target.h"
#include "tests/support/random_quantized.h"

namespace tare::packed_matrix_test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(PackedMatrix, UnpackedIsTheCodesInGroupsOfFour) {
  struct Case {
    int64_t out, in, group;
  };
  for (const Case& c : {Case{1, 1, 1}, {64, 16, 16}, {65, 17, 17}, {130, 192, 64}, {63, 96, 32}, {7, 250, 250}}) {
    for (const Format& format : kWeightFormats) {
      const QuantizedMatrixBuffer matrix = RandomQuantized(format, c.out, c.in, c.group, 3);
      const PackedMatrix packed(matrix.view());
      ASSERT_EQ(packed.Groups(), c.in / c.group);
      AlignedBuffer<int8_t> scratch(static_cast<size_t>(packed.PaddedIn() * 64));
      AlignedBuffer<int32_t> code_sums(static_cast<size_t>(packed.Groups() * 64));
      for (int64_t panel = 0; panel < packed.Panels(); ++panel) {
        const int8_t* codes = packed.Unpacked(panel, scratch.data());
        std::vector<int32_t> sums(code_sums.size(), 0);
        for (int64_t n = 0; n < 64; ++n) {
          const int64_t out = panel * 64 + n;
          std::vector<int8_t> expected(static_cast<size_t>(packed.PaddedIn()), 0);
          if (out < c.out) {
            Unpack<int8_t>(
                format,
                {matrix.view().codes + static_cast<size_t>(out) * matrix.view().RowBytes(), matrix.view().RowBytes()},
                std::span(expected).first(static_cast<size_t>(c.in)));
          }
          for (int64_t i = 0; i < packed.PaddedIn(); ++i) {
            ASSERT_EQ(codes[(i / 4 * 64 + n) * 4 + i % 4], expected[i]) << Name(format) << " " << out << " " << i;
            if (i < c.in) sums[static_cast<size_t>(i / c.group * 64 + n)] += expected[i];
          }
          for (int64_t g = 0; g < packed.Groups(); ++g) {
            EXPECT_EQ(packed.Scales(panel)[g * 64 + n],
                      out < c.out ? matrix.view().scales[out * packed.Groups() + g] : 0.0f);
          }
        }
        OnEachTarget(kAllTargets, [&] {
          packed.SumCodes(codes, packed.GroupInputs(), code_sums.data());
          ASSERT_THAT(code_sums.span(), ElementsAreArray(sums)) << Name(format) << " panel " << panel;
        });
      }
    }
  }
}

TEST(PackedMatrix, BitsAWeight) {
  const auto bytes = [](Format format) {
    return PackedMatrix(RandomQuantized(format, 64, 1024, 64, 1).view()).Bytes();
  };
  constexpr size_t kScales = 64 * 16 * 4;
  EXPECT_EQ(bytes(Format::kInt8), 64 * 1024 + kScales);
  EXPECT_EQ(bytes(Format::kInt6), 64 * 1024 * 6 / 8 + kScales);
  EXPECT_EQ(bytes(Format::kInt4), 64 * 1024 / 2 + kScales);
}

TEST(PackedMatrix, WhatNoQuantizerWritesIsRefused) {
  QuantizedMatrixBuffer matrix = RandomQuantized(Format::kInt4, 3, 64, 64, 1);
  matrix.Codes(2)[5] = 0x77;
  matrix.Codes(2)[6] = 0x07;  // 0: code -8
  EXPECT_THAT(Call([&] { PackedMatrix packed(matrix.view()); }), ThrowsMessage<Error>(HasSubstr("-8")));
  for (const float scale : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    QuantizedMatrixBuffer bad = RandomQuantized(Format::kInt8, 3, 64, 32, 1);
    bad.Scales(1)[1] = scale;
    EXPECT_THAT(Call([&] { PackedMatrix packed(bad.view()); }),
                ThrowsMessage<Error>(HasSubstr("packed weights: row 1, group 1: got scale")));
  }
  const QuantizedMatrixBuffer narrow = RandomQuantized(Format::kInt8, 3, 64, 8, 1);
  EXPECT_THAT(Call([&] { PackedMatrix packed(narrow.view()); }), ThrowsMessage<Error>(HasSubstr("groups of 8")));
}

}  // namespace
}  // namespace tare::packed_matrix_test
