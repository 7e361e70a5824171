// SPDX-License-Identifier: Apache-2.0
// Codes by hand, and what the check accepts and refuses of outputs that a plain loop makes from the definition.
#include "experiments/bench/attention_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::static_attention_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Scale 2 / 127: 1 is 63.5 codes, half to even; 0.25 is 15.875.
TEST(StaticTensor, OneScaleForAll) {
  const float x[] = {1, -2, 0.25, -0.25};
  StaticTensor codes(DenseHeads(x, 2, 1, 2));
  codes.Write();
  EXPECT_EQ(codes.scale, 2.0f / 127);
  EXPECT_THAT(codes.codes, ElementsAre(64, -127, 16, -16));
  EXPECT_EQ(*codes.Row(1, 0), 16);
  codes.Write(128);
  std::vector<int> unsigned_codes;
  for (const int8_t code : codes.codes) unsigned_codes.push_back(static_cast<uint8_t>(code));
  EXPECT_THAT(unsigned_codes, ElementsAre(192, 1, 144, 112));
}

float ScaleOf(HeadsView<const float> x) {
  float largest = 0;
  for (int64_t i = 0; i < x.tokens * x.token_stride; ++i) largest = std::max(largest, std::abs(x.data[i]));
  return largest / 127;
}

int64_t CodeAt(HeadsView<const float> x, int64_t t, int head, int i) {
  return std::lrint(x.Row(t, head)[i] * (127 / (127 * ScaleOf(x))));
}

// V2, causal, each map in f32; step: of the codes that a map's output is rounded to, or 0.
void PlainLoop(const AttentionProblem& p, float step) {
  for (int64_t t = 0; t < p.q.tokens; ++t) {
    for (int h = 0; h < p.out.heads; ++h) {
      for (int map = 0; map < 2; ++map) {
        std::vector<float> row(static_cast<size_t>(t) + 1);
        float sum = 0;
        for (int64_t s = 0; s <= t; ++s) {
          int64_t dot = 0;
          for (int i = 0; i < p.q.width; ++i)
            dot += CodeAt(p.q, t, p.heads[h].Q(map), i) * CodeAt(p.k, s, p.heads[h].K(map), i);
          sum += row[s] = std::exp(static_cast<float>(dot) * ScaleOf(p.q) * ScaleOf(p.k) * p.scale);
        }
        for (int i = 0; i < p.out.width; ++i) {
          int64_t product = 0;
          for (int64_t s = 0; s <= t; ++s)
            product += std::lrint(row[s] / sum * 255) * CodeAt(p.v, s, p.heads[h].v[0], i);
          float value = static_cast<float>(product) * ScaleOf(p.v) / 255;
          if (step > 0) value = std::nearbyint(value / step) * step;
          float& out = p.out.Row(t, h)[i];
          out = map == 0 ? value : out - p.lambda.At(t, h) * value;
        }
      }
    }
  }
}

TEST(CheckStaticAttention, AcceptsTheDefinitionAndNothingElse) {
  const AttentionInputs in({.family = "v2", .n = 20, .d = 8, .heads = 2, .data = "sink"});
  const AttentionProblem& p = in.problem();
  PlainLoop(p, 0);
  EXPECT_NO_THROW(CheckStaticAttention(p, "a kernel", 0, 20));
  float& one = p.out.Row(19, 1)[3];
  one += 1e-4f;
  EXPECT_THAT(Call([&] { CheckStaticAttention(p, "a kernel", 0, 20); }),
              ThrowsMessage<Error>(HasSubstr("a kernel, row 19, head 1, channel 3: got ")));
  one = NAN;
  EXPECT_THAT(Call([&] { CheckStaticAttention(p, "a kernel", 0, 20); }), ThrowsMessage<Error>(HasSubstr("got nan")));
}

// In codes of the outputs an error of half a code in each map is right, and more is not.
TEST(CheckStaticAttention, OutputsInCodes) {
  const AttentionInputs in({.family = "v2", .n = 20, .d = 8, .heads = 2});
  const AttentionProblem& p = in.problem();
  const float step = ScaleOf(p.v);
  PlainLoop(p, step);
  EXPECT_NO_THROW(CheckStaticAttention(p, "a kernel", step, 20));
  EXPECT_THROW(CheckStaticAttention(p, "a kernel", 0, 20), Error);
  for (int64_t i = 0; i < p.out.tokens * p.out.token_stride; ++i) p.out.data[i] += step;
  EXPECT_THROW(CheckStaticAttention(p, "a kernel", step, 20), Error);
}

}  // namespace
}  // namespace tare::static_attention_test
