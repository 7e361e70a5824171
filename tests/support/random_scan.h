// SPDX-License-Identifier: Apache-2.0
// A seeded sequence for Mamba's convolution and scan, and both as plain loops in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/scan/selective_scan.h"

namespace tare {

struct RandomScan {
  RandomScan(int64_t length, int64_t channels, int64_t states, int64_t taps) : tokens(length) {
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

inline std::vector<float> PlainScan(const RandomScan& of, std::vector<float>* last) {
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

inline std::vector<float> PlainConvolution(const RandomScan& of) {
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

}  // namespace tare
