// SPDX-License-Identifier: Apache-2.0
// The convolution and the scan against plain loops in double, on every target; and what must be the same bits: parts of
// a sequence and all of it, blocks of channels and all of them.
#include "kernels/scan/selective_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/compare.h"
#include "tests/support/each_target.h"

namespace tare::selective_scan_test {
namespace {

struct Case {
  Case(int64_t length, int64_t channels, int64_t states, int64_t taps) : tokens(length) {
    std::mt19937_64 random(static_cast<uint64_t>(length * 131 + channels * 17 + states * 5 + taps));
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& values, int64_t count, float mean, float deviation) {
      values.resize(static_cast<size_t>(count));
      for (float& value : values) value = mean + deviation * normal(random);
    };
    p.channels = channels, p.states = states, p.taps = taps;
    fill(p.conv, taps * channels, 0, 0.5f), fill(p.conv_bias, channels, 0, 0.1f), fill(p.d, channels, 1, 0.1f);
    fill(p.delta_bias, channels, -2, 1), fill(p.a, states * channels, 1, 0.7f);
    for (float& a : p.a) a = -std::exp(a);
    fill(x, tokens * channels, 0, 1), fill(delta, tokens * channels, 0, 1), fill(b, tokens * states, 0, 1);
    fill(c, tokens * states, 0, 1);
    for (int64_t t = 0; t < tokens; ++t) SoftplusOfSum(delta.data() + t * channels, p.delta_bias.data(), channels);
  }
  ScanInputs At(int64_t t) const {
    return {.u = {x.data() + t * p.channels, p.channels},
            .delta = {delta.data() + t * p.channels, p.channels},
            .b = {b.data() + t * p.states, p.states},
            .c = {c.data() + t * p.states, p.states}};
  }
  // The tokens in parts of `step`, channels in blocks of `block`.
  std::vector<float> Scanned(int64_t step, int64_t block, ScanState& state) const {
    std::vector<float> y(x.size());
    for (int64_t t = 0; t < tokens; t += step) {
      for (int64_t channel = 0; channel < p.channels; channel += block)
        SelectiveScan(p, {channel, std::min(channel + block, p.channels)}, std::min(step, tokens - t), At(t),
                      state.state.data(), {y.data() + t * p.channels, p.channels});
    }
    return y;
  }
  std::vector<float> Convolved(int64_t step, int64_t block, ScanState& state) const {
    std::vector<float> y(x.size());
    for (int64_t t = 0; t < tokens; t += step) {
      for (int64_t channel = 0; channel < p.channels; channel += block)
        CausalConvolution(p, {channel, std::min(channel + block, p.channels)}, std::min(step, tokens - t), At(t).u,
                          state.history.data(), {y.data() + t * p.channels, p.channels});
    }
    return y;
  }

  int64_t tokens;
  ScanParameters p;
  std::vector<float> x, delta, b, c;
};

std::vector<float> PlainScan(const Case& of, std::vector<float>* last) {
  const int64_t C = of.p.channels, N = of.p.states;
  std::vector<double> s(static_cast<size_t>(C * N));
  std::vector<float> y(of.x.size());
  for (int64_t t = 0; t < of.tokens; ++t) {
    for (int64_t i = 0; i < C; ++i) {
      const double delta = of.delta[t * C + i], u = of.x[t * C + i];
      double sum = of.p.d[i] * u;
      for (int64_t n = 0; n < N; ++n) {
        double& state = s[n * C + i];
        state = std::exp(delta * of.p.a[n * C + i]) * state + delta * u * of.b[t * N + n];
        sum += state * of.c[t * N + n];
      }
      y[t * C + i] = static_cast<float>(sum);
    }
  }
  last->assign(s.begin(), s.end());
  return y;
}

std::vector<float> PlainConvolution(const Case& of) {
  const int64_t C = of.p.channels, k = of.p.taps;
  std::vector<float> y(of.x.size());
  for (int64_t t = 0; t < of.tokens; ++t) {
    for (int64_t i = 0; i < C; ++i) {
      double sum = of.p.conv_bias[i];
      for (int64_t j = std::max<int64_t>(0, k - 1 - t); j < k; ++j)
        sum += double{of.p.conv[j * C + i]} * of.x[(t - k + 1 + j) * C + i];
      y[t * C + i] = static_cast<float>(sum / (1 + std::exp(-sum)));
    }
  }
  return y;
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases{{1, 1, 1, 1}, {1, 5, 3, 4}, {2, 16, 4, 4}, {37, 67, 16, 4}, {150, 40, 5, 3}};
  return cases;
}

// A state is a sum of a token's term and of what is left of its predecessors', each rounded a few times to 2^-24 and
// with an exponential within 4 units; and a decaying sum of errors is below 1 / (1 - decay), some ten tokens' worth
// here.
TEST(SelectiveScanTest, EqualsPlainLoops) {
  OnEachTarget(kAllTargets, [] {
    for (const Case& of : Cases()) {
      ScanState state(of.p);
      std::vector<float> last;
      const std::vector<float> expected = PlainScan(of, &last);
      EXPECT_TRUE(AllNear(of.Scanned(of.tokens, of.p.channels, state), expected, 1e-5)) << of.tokens;
      EXPECT_TRUE(AllNear(state.state, last, 1e-5)) << of.tokens;
      EXPECT_TRUE(AllNear(of.Convolved(of.tokens, of.p.channels, state), PlainConvolution(of), 1e-5)) << of.tokens;
    }
  });
}

TEST(SelectiveScanTest, PartsOfASequenceAndBlocksOfChannelsAreTheSameBits) {
  for (const Case& of : Cases()) {
    ScanState whole(of.p);
    const std::vector<float> scanned = of.Scanned(of.tokens, of.p.channels, whole),
                             convolved = of.Convolved(of.tokens, of.p.channels, whole);
    for (const int64_t step : {1, 2, 7, 64}) {
      for (const int64_t block : {1, 16, 64}) {
        ScanState parts(of.p);
        EXPECT_EQ(of.Scanned(step, block, parts), scanned) << step << ' ' << block;
        EXPECT_EQ(of.Convolved(step, block, parts), convolved) << step << ' ' << block;
        EXPECT_EQ(parts.state, whole.state) << step << ' ' << block;
        EXPECT_EQ(parts.history, whole.history) << step << ' ' << block;
      }
    }
  }
}

// A token that steps far forgets what was before it: exp(-1000) is 0.
TEST(SelectiveScanTest, ALongStepForgets) {
  Case of(3, 2, 2, 2);
  of.delta[4] = of.delta[5] = 1e3f;
  ScanState state(of.p), fresh(of.p);
  std::ranges::fill(of.p.a, -1.0f);
  of.Scanned(3, 2, state);
  SelectiveScan(of.p, {0, 2}, 1, of.At(2), fresh.state.data(), {of.x.data(), 2});
  EXPECT_EQ(state.state, fresh.state);
}

TEST(SelectiveScanTest, SoftplusAndGate) {
  const std::vector<float> x{-200, -30, -1, 0, 1, 30, 200, 1e30f}, zero(x.size());
  std::vector<float> softplus = x, gated(x.size());
  SoftplusOfSum(softplus.data(), zero.data(), std::ssize(x));
  SiluGate(x.data(), x.data(), std::ssize(x), gated.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], expected = std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v)));
    EXPECT_NEAR(softplus[i], expected, 4e-7 * expected + 1e-38) << v;
    const double silu = v / (1 + std::exp(-v));
    if (v < 1e20) {
      EXPECT_NEAR(gated[i], v * silu, 1e-6 * std::abs(v * silu) + 1e-30) << v;
    }
  }
}

}  // namespace
}  // namespace tare::selective_scan_test
