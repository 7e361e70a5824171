// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/page_softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/attention/heads.h"
#include "quant/base/aligned.h"
#include "tests/support/each_target.h"
#include "tests/support/random_quantized.h"

namespace tare {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Pages {
  AlignedBuffer<float> products{3 * 64}, scales{64}, p{64};
  Pages() {
    const std::vector<float> values = RandomNormal(4 * 64, 7);
    std::copy_n(values.data(), 192, products.data());
    for (int i = 0; i < 64; ++i) scales[i] = 1 + std::abs(values[192 + i]);
  }
  PageLogits Of(int page, int begin, int end) const {
    return {.products = products.data() + 64 * page,
            .key_scales = scales.data(),
            .factor = 2.5f,
            .begin = begin,
            .end = end};
  }
};

TEST(PageSoftmax, ThreePagesAreOneSoftmax) {
  const KeyRange ranges[] = {{0, 64}, {5, 20}, {63, 64}};
  std::vector<float> first;
  OnEachTarget(kAllTargets, [&] {
    Pages pages;
    RunningSoftmax state{kNone, 0};
    double largest = -1e9, sum = 0, scaled = 0;  // scaled: a sum that is rescaled as an output is
    std::vector<double> all;
    std::vector<float> bits;
    for (int page = 0; page < 3; ++page) {
      const auto [begin, end] = ranges[page];
      const PageLogits logits = pages.Of(page, static_cast<int>(begin), static_cast<int>(end));
      scaled *= SoftmaxOfPage(logits, state, pages.p.data());
      for (int i = 0; i < 64; ++i) {
        bits.push_back(pages.p[i]);
        const bool seen = i >= begin && i < end;
        const double s = 2.5 * pages.scales[i] * pages.products[64 * page + i];
        ASSERT_NEAR(pages.p[i], seen ? std::exp2(s - state.max) : 0.0, 4e-6) << page << " " << i;  // s to 2^-20
        scaled += pages.p[i];
        if (seen) all.push_back(s), largest = std::max(largest, s);
      }
    }
    for (const double s : all) sum += std::exp2(s - largest);
    EXPECT_NEAR(state.max, largest, 1e-5);
    EXPECT_NEAR(state.sum, sum, 1e-5 * sum);
    EXPECT_NEAR(scaled, sum, 1e-5 * sum);
    bits.push_back(state.sum);
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first);  // the same on every instruction set
  });
}

TEST(PageSoftmax, WhatSeesNothingStaysAsItWas) {
  OnEachTarget(kAllTargets, [] {
    Pages pages;
    RunningSoftmax none{kNone, 0};
    pages.p[3] = 9;
    EXPECT_EQ(SoftmaxOfPage(pages.Of(0, 7, 7), none, pages.p.data()), 1.0f);
    EXPECT_EQ(none.max, kNone);
    EXPECT_EQ(none.sum, 0.0f);
    EXPECT_EQ(pages.p[3], 0.0f);
    RunningSoftmax some{1.5f, 2.0f};
    EXPECT_EQ(SoftmaxOfPage(pages.Of(0, 0, 0), some, pages.p.data()), 1.0f);
    EXPECT_EQ(some.max, 1.5f);
    EXPECT_EQ(some.sum, 2.0f);
  });
}

TEST(PageSoftmax, RescaleMultipliesNoMoreThanAsked) {
  OnEachTarget(kAllTargets, [] {
    AlignedBuffer<float> y(64);
    std::ranges::fill(y.span(), 3.0f);
    Rescale(y.data(), 0.5f, 48);
    EXPECT_EQ(y[47], 1.5f);
    EXPECT_EQ(y[48], 3.0f);
  });
}

}  // namespace
}  // namespace tare
