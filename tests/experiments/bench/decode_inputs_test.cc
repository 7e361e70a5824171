// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/decode_bench.h"

#include <gtest/gtest.h>

namespace tare::decode_inputs_test {
namespace {

TEST(DecodeInputs, CacheDenseAndExactAreTheSameTokens) {
  for (const char* family : {"standard", "v1", "v2"}) {
    const DecodeInputs in({.family = family, .n = 150, .d = 16, .heads = 4, .kv_heads = 2, .batch = 2}, 1);
    const CacheShape& shape = in.table().shape();
    for (const int sequence : {0, 1}) {
      const KvCache cache = in.Cache({}, sequence);
      ASSERT_EQ(cache.tokens(), 150);
      const DecodeInputs::Dense dense = in.AllTokens(sequence);
      std::vector<float> row(64);
      for (int64_t t = 0; t < 150; ++t) {
        const int h = static_cast<int>(t % shape.v_heads);
        cache.ReadValue(t, h, row.data());
        const float* expected = dense.v.data() + (t * shape.v_heads + h) * shape.v_width;
        ASSERT_TRUE(std::equal(expected, expected + shape.v_width, row.data())) << family << t;
      }
      std::vector<float> out(in.table().heads() * in.table().out_width());
      const std::vector<double> all =
          ReferenceAttentionDouble({.q = in.Query(sequence),
                                    .k = DenseHeads<const float>(dense.k.data(), 150, shape.k_heads, shape.k_width),
                                    .v = DenseHeads<const float>(dense.v.data(), 150, shape.v_heads, shape.v_width),
                                    .heads = in.heads(),
                                    .lambda = {in.lambda(), 0, 0},
                                    .mask = {.kind = Mask::Kind::kFull},
                                    .scale = in.table().scale(),
                                    .out = DenseHeads(out.data(), 1, in.table().heads(), in.table().out_width())});
      for (const int head : {0, 3}) {
        const auto begin = all.begin() + head * in.table().out_width();
        EXPECT_EQ(in.Exact(sequence, head), std::vector(begin, begin + in.table().out_width())) << family;
      }
    }
    EXPECT_NE(in.AllTokens(0).k, in.AllTokens(1).k);
  }
}

}  // namespace
}  // namespace tare::decode_inputs_test
