// SPDX-License-Identifier: Apache-2.0
// Plans in loops, where every code can be said beforehand; the kernels' tests hold the kernels to it on random data.
#include "tests/support/quantized_reference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/random_attention.h"
#include "tests/support/whole_references.h"

namespace tare::quantized_reference_test {
namespace {

using Order = AttentionPlan::Order;

// Queries of zeros: all keys that a row sees weigh the same. V is +-127 or 0, codes without rounding, of scale 1.
RandomAttention EqualLogits() {
  RandomAttention in({.heads = 1, .queries = 70, .keys = 70, .d = 4, .v_width = 3});
  std::ranges::fill(in.q, 0.0f);
  std::ranges::fill(in.lambda, 0.25f);
  for (int64_t t = 0; t < 70; ++t)
    for (int i = 0; i < 3; ++i) const_cast<float*>(in.problem.v.Row(t, 0))[i] = t % 3 == i ? 127.0f : 0.0f;
  return in;
}

// Mean of column i over the first `keys` keys.
float Mean(int64_t keys, int i) { return 127.0f * static_cast<float>((keys + 2 - i) / 3) / static_cast<float>(keys); }

TEST(QuantizedReference, EqualLogitsAreTheLargestCode) {
  RandomAttention in = EqualLogits();
  for (const int64_t t : {0, 1, 63, 64, 69}) {
    const QuantizedRow late = QuantizedReferenceRow({.probs = Format::kU6, .block = 64}, in.problem, t, 0);
    ASSERT_EQ(late.codes.size(), 2u * 128);
    const QuantizedRow early =
        QuantizedReferenceRow({.order = Order::kEarly, .probs = Format::kInt4, .block = 128}, in.problem, t, 0);
    ASSERT_EQ(early.codes.size(), 128u);
    for (int64_t s = 0; s < 128; ++s) {
      EXPECT_EQ(late.codes[s], s <= t ? 63 : 0);
      EXPECT_EQ(late.codes[128 + s], s <= t ? 63 : 0);
      // 16-bit exponentials are 32767 both, times 1 and times a quarter: one difference for all, hence the largest
      // code.
      EXPECT_EQ(early.codes[s], s <= t ? 7 : 0) << t << ' ' << s;
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(late.out[i], 0.75f * Mean(t + 1, i), 1e-4);
      EXPECT_NEAR(early.out[i], 0.75f * Mean(t + 1, i), 127 * 2 * 0x1p-15);  // D is rounded twice to 2^-15
    }
  }
}

// One key 100 nats above the others: it has the largest code, they have none, and its V comes out.
TEST(QuantizedReference, ASinkTakesEveryCode) {
  RandomAttention in = EqualLogits();
  for (int map = 0; map < 2; ++map) {
    for (int64_t t = 0; t < 70; ++t) const_cast<float*>(in.problem.q.Row(t, map))[0] = 20;
    for (int64_t s = 0; s < 70; ++s) std::fill_n(const_cast<float*>(in.problem.k.Row(s, map)), 4, 0.0f);
    const_cast<float*>(in.problem.k.Row(7, map))[0] = 10;
  }
  const QuantizedRow row = QuantizedReferenceRow({.block = 64}, in.problem, 69, 0);
  for (int64_t s = 0; s < 64; ++s) EXPECT_EQ(row.codes[s], s == 7 ? 255 : 0);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(row.out[i], i == 7 % 3 ? 0.75f * 127 : 0.0f, 1e-3);
}

TEST(QuantizedReference, RowsThatSeeNothingAreZeros) {
  RandomAttention in({.heads = 2, .queries = 70, .keys = 10});
  QuantizedReference({.block = 64}, in.problem);
  for (int64_t t = 0; t < 70; ++t) {
    for (int head = 0; head < 2; ++head)
      EXPECT_EQ(std::ranges::all_of(std::span(in.problem.out.Row(t, head), 32), [](float x) { return x == 0.0f; }),
                t < 60)
          << t;
  }
}

}  // namespace
}  // namespace tare::quantized_reference_test
