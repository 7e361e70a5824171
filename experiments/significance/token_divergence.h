// SPDX-License-Identifier: Apache-2.0
// How far a model's predictions differ from those of its reference model, token by token, and the usual figures, with
// the definitions of llama.cpp's perplexity tool (`--kl-divergence`). Errors are over windows (mean_error.h), because
// the tokens of a window are not independent. llama.cpp's are over tokens.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tare {

// Tokens by the number of tokens that they were predicted from (their member `context`), in ranges of powers of two: by
// the first of 1, 2 to 3, 4 to 7, ...
template <typename Token>
std::map<int64_t, std::vector<Token>> ByContext(const std::vector<Token>& tokens) {
  std::map<int64_t, std::vector<Token>> ranges;
  for (const Token& token : tokens)
    ranges[static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(token.context)))].push_back(token);
  return ranges;
}
inline int64_t LastOfRange(int64_t first) { return std::max<int64_t>(0, 2 * first - 1); }

// For one predicted token, with p the reference's distribution and q that of the model under test.
struct TokenDivergence {
  double kld = 0;             // sum p ln(p / q), nats
  double reference_loss = 0;  // -ln p(token), nats
  double loss = 0;            // -ln q(token)
  bool same_top = false;      // whether both have the same most likely token
  int64_t context = 0;        // number of context tokens
  size_t window = 0;          // which one scored it, in the order of the text
};

struct MeanAndError {
  double mean = 0;
  std::optional<double> error;  // empty of too few windows
};

struct Divergence {
  MeanAndError kld;
  double kld_median = 0, kld_90 = 0, kld_95 = 0, kld_99 = 0, kld_999 = 0, kld_largest = 0;
  MeanAndError same_top;   // a share
  MeanAndError delta_p;    // q(token) - p(token)
  double delta_p_rms = 0;  // root of the mean square
  MeanAndError log_ratio;  // ln of perplexity / the reference's: the mean of loss - reference_loss
};

// Needs at least one token.
Divergence DivergenceOf(std::span<const TokenDivergence> tokens);

// A quantile of sorted values, with linear interpolation.
double Quantile(std::span<const double> sorted, double share);

}  // namespace tare
