// SPDX-License-Identifier: Apache-2.0
// The convolution and the scan against plain loops in double, on every target; and what must be the same bits: parts of
// a sequence and all of it, blocks of channels and all of them.
#include "kernels/scan/selective_scan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/each_target.h"
#include "tests/support/random_scan.h"

namespace tare::selective_scan_test {
namespace {

const std::vector<RandomScan>& Cases() {
  static const std::vector<RandomScan> cases{
      {1, 1, 1, 1}, {1, 5, 3, 4}, {2, 16, 4, 4}, {37, 67, 16, 4}, {150, 40, 5, 3}};
  return cases;
}

// A state is a sum of a token's term and of what is left of its predecessors', each rounded a few times to 2^-24 and
// with an exponential within 4 units; and a decaying sum of errors is below 1 / (1 - decay), some ten tokens' worth
// here.
TEST(SelectiveScanTest, EqualsPlainLoops) {
  OnEachTarget(kAllTargets, [] {
    for (const RandomScan& of : Cases()) {
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
  for (const RandomScan& of : Cases()) {
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

// One rate for all states of a channel, as Mamba-2 has it, is as many equal ones.
TEST(SelectiveScanTest, OneRateOfAChannelIsThatOfEachState) {
  OnEachTarget(kAllTargets, [] {
    for (const RandomScan& of : Cases()) {
      RandomScan repeated = of, one = of;
      const int64_t C = of.p.channels;
      for (int64_t i = 0; i < C * of.p.states; ++i) repeated.p.a[i] = of.p.a[i % C];
      one.p.a.resize(static_cast<size_t>(C));
      ScanState a(of.p), b(of.p);
      EXPECT_EQ(one.Scanned(of.tokens, C, a), repeated.Scanned(of.tokens, C, b)) << of.tokens;
      EXPECT_EQ(a.state, b.state) << of.tokens;
    }
  });
}

// Mamba-2's dual form (Dao and Gu 2024, section 6) in double: within a chunk a matrix of tokens by tokens, between
// chunks the state at their ends.
std::vector<float> InChunks(const RandomScan& of, int64_t chunk) {
  const int64_t C = of.p.channels, N = of.p.states;
  std::vector<float> y(of.x.size());
  for (int64_t i = 0; i < C; ++i) {
    std::vector<double> state(static_cast<size_t>(N));
    for (int64_t first = 0; first < of.tokens; first += chunk) {
      const int64_t end = std::min(first + chunk, of.tokens);
      const auto decay = [&](int64_t from, int64_t to) {  // of the steps after `from`, up to `to`
        double sum = 0;
        for (int64_t t = from + 1; t <= to; ++t) sum += double{of.delta[t * C + i]} * of.p.a[i];
        return std::exp(sum);
      };
      for (int64_t t = first; t < end; ++t) {
        double sum = double{of.p.d[i]} * of.x[t * C + i];
        for (int64_t n = 0; n < N; ++n) {
          sum += of.c[t * N + n] * decay(first - 1, t) * state[n];
          for (int64_t s = first; s <= t; ++s)
            sum += double{of.c[t * N + n]} * of.b[s * N + n] * decay(s, t) * of.delta[s * C + i] * of.x[s * C + i];
        }
        y[t * C + i] = static_cast<float>(sum);
      }
      for (int64_t n = 0; n < N; ++n) {
        state[n] *= decay(first - 1, end - 1);
        for (int64_t s = first; s < end; ++s)
          state[n] += double{of.b[s * N + n]} * decay(s, end - 1) * of.delta[s * C + i] * of.x[s * C + i];
      }
    }
  }
  return y;
}

TEST(SelectiveScanTest, OneRateOfAChannelIsTheChunkedForm) {
  for (RandomScan of : {RandomScan(37, 12, 6, 4), RandomScan(64, 5, 16, 2), RandomScan(9, 3, 1, 1)}) {
    of.p.a.resize(static_cast<size_t>(of.p.channels));
    ScanState state(of.p);
    const std::vector<float> scanned = of.Scanned(5, 2, state);
    for (const int64_t chunk : {1, 4, 16, 100}) EXPECT_TRUE(AllNear(scanned, InChunks(of, chunk), 1e-5)) << chunk;
  }
}

// A token that steps far forgets what was before it: exp(-1000) is 0.
TEST(SelectiveScanTest, ALongStepForgets) {
  RandomScan of(3, 2, 2, 2);
  of.delta[4] = of.delta[5] = 1e3f;
  ScanState state(of.p), fresh(of.p);
  std::ranges::fill(of.p.a, -1.0f);
  of.Scanned(3, 2, state);
  SelectiveScan(of.p, {0, 2}, 1, of.At(2), fresh.state.data(), {of.x.data(), 2});
  EXPECT_EQ(state.state, fresh.state);
}

TEST(SelectiveScanTest, ARateThatIsNoNumberIsSeen) {
  OnEachTarget(kAllTargets, [] {
    RandomScan of(2, 5, 3, 2);
    of.p.a[1] = NAN;
    ScanState state(of.p);
    const std::vector<float> y = of.Scanned(2, 5, state);
    EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[6]));
    EXPECT_FALSE(std::isnan(y[0]));
  });
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
