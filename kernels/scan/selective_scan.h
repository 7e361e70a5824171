// SPDX-License-Identifier: Apache-2.0
// The selective scan of Mamba (Gu and Dao 2023, section 3) and the short convolution before it, over the tokens of one
// sequence. Legend: T tokens, C channels, N states per channel, k taps, W channels of the convolution.
//
//   convolution   y[t, c] = silu(bias[c] + sum_j w[j, c] x[t - k + 1 + j, c]),  x before the first token 0
//   scan          s_t = exp(delta[t, c] a[n, c]) s_(t-1) + delta[t, c] u[t, c] b[t, n],  s_-1 = 0,   n = 0 .. N - 1
//                 y[t, c] = sum_n s_t[n, c] cc[t, n] + d[c] u[t, c]
//
// Mamba-2 (Dao and Gu 2024) is the case of one rate a and one delta for all channels of a head, with b and cc for
// groups of heads: a call for each group. Its convolution has b and cc as channels, too.
//
// What precedes the first token is in the history and the state, which each call leaves as the next one needs them: a
// sequence in parts gives the bits of one call. Both are in f32; a block of channels is independent of all others. SIMD
// is chosen at run time (Highway); lanes are channels, so that no sum's order depends on their number.
#pragma once

#include <cstdint>
#include <vector>

namespace tare {

// Parameters of one layer, all with the channel last.
struct ScanParameters {
  int64_t channels = 0, states = 0, taps = 0;
  std::vector<float> conv;        // [k, W]; the last tap is that of the present token
  std::vector<float> conv_bias;   // [W]
  std::vector<float> delta_bias;  // [C], or one for each head
  std::vector<float> a;           // [N, C], or [C] where the states of a channel share it; negative: -exp(A_log)
  std::vector<float> d;           // [C]

  int64_t Convolved() const { return static_cast<int64_t>(conv_bias.size()); }
  int64_t StateValues() const { return states * channels; }
};

// What a sequence hands to its next tokens.
struct ScanState {
  std::vector<float> history;  // [k - 1, W], the last tokens' x, oldest first
  std::vector<float> state;    // [N, C]
  int64_t tokens = 0;          // so far

  ScanState() = default;
  explicit ScanState(const ScanParameters& p) : ScanState((p.taps - 1) * p.Convolved(), p.StateValues()) {}
  ScanState(int64_t history_values, int64_t state_values)
      : history(static_cast<size_t>(history_values)), state(static_cast<size_t>(state_values)) {}
  size_t Bytes() const { return (history.size() + state.size()) * sizeof(float); }
};

struct ChannelRange {
  int64_t begin = 0, end = 0;
};

// A matrix of tokens: row t at data + t * stride.
template <typename T>
struct TokenRows {
  T* data = nullptr;
  int64_t stride = 0;
};

// y = convolution of x; moves the history on by T tokens. y may not be x.
void CausalConvolution(const ScanParameters& p, ChannelRange channels, int64_t tokens, TokenRows<const float> x,
                       float* history, TokenRows<float> y);

struct ScanInputs {
  TokenRows<const float> u, delta;  // [T, C]
  TokenRows<const float> b, c;      // [T, N]
};

// y = scan of the inputs; moves the state on by T tokens.
void SelectiveScan(const ScanParameters& p, ChannelRange channels, int64_t tokens, const ScanInputs& in, float* state,
                   TokenRows<float> y);

// row = softplus(row + bias) = log(1 + exp(row + bias)).
void SoftplusOfSum(float* row, const float* bias, int64_t n);
// y = x * silu(gate).
void SiluGate(const float* x, const float* gate, int64_t n, float* y);

}  // namespace tare
