// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/page_softmax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/heads.h"
#include "quant/base/aligned.h"
#include "tests/support/each_target.h"
#include "tests/support/random_quantized.h"

namespace tare::page_softmax_test {
namespace {

using testing::Each;

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr KeyRange kSeen[] = {{0, 64}, {5, 20}, {63, 64}, {7, 7}};  // of four pages; the last has none
constexpr int kPages = 4;

struct Pages {
  AlignedBuffer<float> products{kPages * 64}, scales{64}, p{kPages * 64};
  Pages() {
    const std::vector<float> values = RandomNormal(kPages * 64 + 64, 7);
    std::copy_n(values.data(), kPages * 64, products.data());
    for (int i = 0; i < 64; ++i) scales[i] = 1 + std::abs(values[kPages * 64 + i]);
    std::ranges::fill(p.span(), 9.0f);
  }
  double Logit(int page, int i) const { return 2.5 * scales[i] * products[64 * page + i]; }
  SoftmaxSum Run(int page) {
    return ExponentialsOfPart({.products = products.data() + 64 * page,
                               .key_scales = scales.data(),
                               .factor = 2.5f,
                               .keys = {0, 64},
                               .seen = kSeen[page]},
                              p.data() + 64 * page);
  }
};

// Shares of four pages times their exponentials are the softmax over all keys that are seen. Logits of some 20 octaves
// are rounded to 2^-20: 4e-6 of a probability.
TEST(PageSoftmax, PagesTogetherAreOneSoftmax) {
  std::vector<float> first;
  OnEachTarget(kAllTargets, [&] {
    Pages pages;
    // Map 3 of 16; the others see nothing.
    std::vector<float> max(kPages * 16, kNone), sum(kPages * 16, 0.0f), total(16), inverse(16);
    double all = 0;
    for (int page = 0; page < kPages; ++page) {
      const SoftmaxSum s = pages.Run(page);
      max[page * 16 + 3] = s.max, sum[page * 16 + 3] = s.sum;
      for (int64_t i = kSeen[page].begin; i < kSeen[page].end; ++i)
        all += std::exp2(pages.Logit(page, static_cast<int>(i)));
    }
    TotalsOfMaps(max.data(), sum.data(), kPages, 16, total.data(), inverse.data());
    std::vector<float> bits(inverse);
    for (int page = 0; page < kPages; ++page) {
      const float share = sum[page * 16 + 3];
      for (int i = 0; i < 64; ++i) {
        const bool seen = i >= kSeen[page].begin && i < kSeen[page].end;
        const double expected = seen ? std::exp2(pages.Logit(page, i)) / all : 0;
        ASSERT_NEAR(pages.p[page * 64 + i] * share, expected, 4e-6) << page << " " << i;
        bits.push_back(pages.p[page * 64 + i] * share);
      }
    }
    EXPECT_EQ(total[2], kNone);
    EXPECT_EQ(inverse[2], 0.0f);
    EXPECT_EQ(sum[2], 0.0f);
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first);  // the same on every instruction set
  });
}

// Parts of a page: each writes its own keys, and its sum is of those that are seen.
TEST(PageSoftmax, ExponentialsOfOtherKeysStay) {
  OnEachTarget(kAllTargets, [] {
    Pages pages;
    const SoftmaxSum sum = ExponentialsOfPart(
        {.products = pages.products.data(), .factor = 2.0f, .keys = {17, 33}, .seen = {20, 33}}, pages.p.data());
    const float largest = 2.0f * *std::max_element(pages.products.data() + 20, pages.products.data() + 33);
    EXPECT_EQ(sum.max, largest);
    double all = 0;
    for (int i = 0; i < 64; ++i) {
      const bool seen = i >= 20 && i < 33;
      const double expected = seen ? std::exp2(2.0 * pages.products[i] - largest) : i >= 17 && i < 33 ? 0 : 9;
      EXPECT_NEAR(pages.p[i], expected, 1e-6) << i;
      all += seen ? expected : 0;
    }
    EXPECT_NEAR(sum.sum, all, 1e-5);
  });
}

TEST(PageSoftmax, APageWithoutKeysIsZeros) {
  OnEachTarget(kAllTargets, [] {
    Pages pages;
    const SoftmaxSum sum = pages.Run(3);
    EXPECT_EQ(sum.max, kNone);
    EXPECT_EQ(sum.sum, 0.0f);
    EXPECT_THAT(pages.p.span().last(64), Each(0.0f));
  });
}

TEST(PageSoftmax, DifferencesOfTheKeysAskedFor) {
  const AlignedBuffer<float> p = [] {
    AlignedBuffer<float> both(128);
    std::ranges::copy(RandomNormal(128, 3), both.data());
    return both;
  }();
  std::vector<float> first;
  OnEachTarget(kAllTargets, [&] {
    AlignedBuffer<float> d(64);
    double sum = 0;
    const PageMap one{p.data(), 0.25f}, two{p.data() + 64, 0.5f};
    const float weight = DifferenceOfPart(one, two, {3, 50}, d.data());
    for (int i = 0; i < 64; ++i) {
      const float expected = i >= 3 && i < 50 ? 0.25f * p[i] - 0.5f * p[64 + i] : 0.0f;
      ASSERT_EQ(d[i], expected) << i;
      sum += std::abs(expected);
    }
    EXPECT_NEAR(weight, sum, 1e-5);
    std::vector<float> bits{weight};
    bits.push_back(DifferenceOfPart(one, {}, {0, 64}, d.data()));
    for (int i = 0; i < 64; ++i) ASSERT_EQ(d[i], 0.25f * p[i]);
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first);
  });
}

}  // namespace
}  // namespace tare::page_softmax_test
