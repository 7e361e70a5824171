// SPDX-License-Identifier: Apache-2.0
// Decoding over caches with a static scale, and what codes ask of queries: tests/kernels/decode has their formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/random_decode.h"

namespace tare::decode_grids_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// One scale for all that a cache holds: values beyond its clip become the largest.
TEST(DecodeGrids, AScaleOfTheTensor) {
  constexpr Granularity kTensor = {Granularity::Kind::kTensor};
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1}) {
    for (const Format& format : std::vector<Format>{Format::kFp8E4M3, Format::kInt8, Format::kNf4}) {
      const CacheRule clipped{.format = format, .granularity = kTensor, .clip = 2.5f}, token{format};
      for (const CacheRules& rules : {CacheRules{.k = clipped, .v = clipped, .first = 3},
                                      CacheRules{.k = token, .v = clipped}, CacheRules{.k = clipped, .v = token}}) {
        RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = 3, .keys = 150, .v_width = 80}, rules);
        c.Run();
        EXPECT_LT(WorstRow(c), 1) << Name(format);
        const CacheShape shape = c.cache.shape();
        std::vector<float> value(static_cast<size_t>(shape.v_width));
        c.cache.ReadValue(100, 0, value.data());
        const float* from = c.tensors.problem.v.Row(100, 0);
        const Scale scale = ScaleFor(2.5f, format);
        for (int i = 0; i < shape.v_width && rules.v.clip; ++i)
          ASSERT_EQ(value[i], Rounded(from[i], scale.inv, format) * scale.scale) << Name(format);
        const double codes = 64 * shape.v_heads * shape.v_width * Info(format).bits / 8.0;
        if (rules.v.clip) {
          EXPECT_EQ(CacheBytes(shape, {.k = {}, .v = rules.v}, 64),
                    64 * shape.k_heads * shape.k_width * 4 + codes * RoundUp(shape.v_width, 64) / shape.v_width);
        }
      }
    }
  }
}

// Sums before a scale would not be finite: codes are large where keys are not.
TEST(DecodeGrids, QueriesThatCodesMakeTooLargeAreRefused) {
  for (const Format& format : {Format(Format::kInt8), Format(Format::kFp8E5M2)}) {
    RandomDecode tiny({.queries = 1, .keys = 70}, {.k = {format}, .v = {format}});
    for (float& k : tiny.tensors.k) k *= 1e-30f;
    tiny.cache.Truncate(0);
    tiny.cache.Append(tiny.tensors.problem.k, tiny.tensors.problem.v);
    std::ranges::fill(tiny.tensors.q, format == Format::kInt8 ? 1e32f : 1e29f);
    EXPECT_LT((tiny.Run(), WorstRow(tiny)), 1) << Name(format);
    std::ranges::fill(tiny.tensors.q, format == Format::kInt8 ? 1e37f : 1e33f);
    EXPECT_THAT(Call([&] { tiny.Run(); }), ThrowsMessage<Error>(HasSubstr("and keys, or their codes, up to")));
  }
}

}  // namespace
}  // namespace tare::decode_grids_test
