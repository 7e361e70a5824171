// SPDX-License-Identifier: Apache-2.0
// Learned sinks in the model's f32 attention, against the double reference; what visitors are told of them; and what a
// row of probabilities sums to when it is rounded.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "experiments/model/attention/float_attention.h"
#include "tests/support/random_attention.h"

namespace tare::attention_sinks_test {
namespace {

constexpr int64_t kTokens = 130;

std::vector<float> SinksOf(const RandomAttention& in) {
  std::vector<float> sinks;
  for (int head = 0; head < in.problem.q.heads; ++head) sinks.push_back(1.0f + static_cast<float>(head % 3));
  return sinks;
}

std::vector<float> Attend(RandomAttention& in, SiteVisitors visitors = {}) {
  const AttentionSequence whole{.prefix = kTokens};
  FloatAttention({.problem = in.problem, .sequences = {&whole, 1}, .visitors = visitors});
  return in.out;
}

// Visits maps; changes a difference or not.
struct Watcher : SiteVisitor {
  explicit Watcher(bool makes_early) : early(makes_early) {}
  bool Wants(Site site, std::optional<int>) const override {
    return site == Site::kProbs || site == Site::kDifference || site == Site::kAttnLogits;
  }
  bool Changes() const override { return early; }
  void Visit(const SiteBlock& b, int) override {
    const std::lock_guard lock(mutex);
    if (b.site != Site::kProbs) {
      EXPECT_EQ(b.sink_shares, nullptr);
      return;
    }
    ASSERT_NE(b.sink_shares, nullptr);
    for (int64_t r = 0; r < b.rows; ++r) {
      double sum = 0;
      for (const float p : b.Row(r)) sum += p;
      EXPECT_NEAR(sum + b.sink_shares[r], 1, 1e-6);
      ++rows;
    }
  }
  bool early;
  std::mutex mutex;
  int64_t rows = 0;
};

// The bound of float_attention_test.cc.
TEST(FloatAttentionSinks, TheDoubleReference) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kV2}) {
    for (const Mask& mask : {Mask{}, Mask{Mask::Kind::kWindow, 37}}) {
      for (const bool early : {false, true}) {
        RandomAttention in({.family = family, .heads = 4, .kv = 2, .queries = kTokens, .keys = kTokens, .mask = mask});
        const std::vector<float> sinks = SinksOf(in);
        in.problem.sinks = sinks;
        const std::vector<double> want = ReferenceAttentionDouble(in.problem);
        Watcher watcher(early);
        SiteVisitor* const visitors[] = {&watcher};
        const std::vector<float> got = Attend(in, visitors);
        const double bound = (4.0 * in.problem.q.width + kTokens) * 0x1p-24 * 4.5 * 2;
        for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << i;
        EXPECT_GE(watcher.rows, kTokens * in.problem.q.heads);
      }
    }
  }
}

TEST(FloatAttentionSinks, MinusInfinityIsNoneToTheBitAndAHugeOneGivesZeros) {
  RandomAttention in({.family = HeadKind::kV1, .heads = 4, .kv = 2, .queries = kTokens, .keys = kTokens});
  const std::vector<float> plain = Attend(in);
  const std::vector<float> none(static_cast<size_t>(in.problem.q.heads), -std::numeric_limits<float>::infinity()),
      huge(none.size(), 1e8f);
  in.problem.sinks = none;
  EXPECT_EQ(Attend(in), plain);
  in.problem.sinks = huge;
  EXPECT_EQ(Attend(in), std::vector<float>(plain.size()));
}

// A sequence of 70 and a branch of 60 is the sequence of 130.
TEST(FloatAttentionSinks, BranchesContinueTheirPrefix) {
  RandomAttention in({.family = HeadKind::kStandard, .heads = 4, .kv = 2, .queries = kTokens, .keys = kTokens});
  const std::vector<float> sinks = SinksOf(in);
  in.problem.sinks = sinks;
  const std::vector<float> whole = Attend(in);
  const AttentionSequence parts{.prefix = 70, .branches = {60}};
  FloatAttention({.problem = in.problem, .sequences = {&parts, 1}});
  for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(in.out[i], whole[i], 2e-6);
}

}  // namespace
}  // namespace tare::attention_sinks_test
