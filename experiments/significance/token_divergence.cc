// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/token_divergence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>

#include "quant/base/error.h"

namespace tare {
namespace {

MeanAndError MeanOf(std::span<const TokenDivergence> tokens, const std::function<double(const TokenDivergence&)>& of) {
  const auto n = static_cast<double>(tokens.size());
  double mean = 0, squares = 0;
  for (const TokenDivergence& t : tokens) mean += of(t) / n;
  for (const TokenDivergence& t : tokens) squares += (of(t) - mean) * (of(t) - mean);
  return {mean, n > 1 ? std::sqrt(squares / (n - 1) / n) : 0.0};
}

// A share is a quotient of counts: a sum of quotients may exceed 1.
MeanAndError ShareOf(std::span<const TokenDivergence> tokens, bool TokenDivergence::* of) {
  const auto n = static_cast<double>(tokens.size()), count = static_cast<double>(std::ranges::count(tokens, true, of));
  const double mean = count / n, squares = count * (1 - mean) * (1 - mean) + (n - count) * mean * mean;
  return {mean, n > 1 ? std::sqrt(squares / (n - 1) / n) : 0.0};
}

double DeltaP(const TokenDivergence& t) { return std::exp(-t.loss) - std::exp(-t.reference_loss); }

}  // namespace

std::vector<ContextRange> RangesOf(std::span<const int64_t> contexts) {
  std::map<int64_t, ContextRange> by_first;
  for (size_t i = 0; i < contexts.size(); ++i) {
    const auto first = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(contexts[i])));
    ContextRange& range = by_first[first];
    range.first = first;
    range.last = std::max<int64_t>(0, 2 * first - 1);
    range.tokens.push_back(i);
  }
  std::vector<ContextRange> all;
  for (auto& [first, range] : by_first) all.push_back(std::move(range));
  return all;
}

double Quantile(std::span<const double> sorted, double share) {
  TARE_CHECK(!sorted.empty() && share >= 0 && share <= 1);
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return (1 - part) * sorted[below] + part * sorted[above];
}

Divergence DivergenceOf(std::span<const TokenDivergence> tokens) {
  TARE_CHECK(!tokens.empty());
  std::vector<double> sorted;
  for (const TokenDivergence& t : tokens) sorted.push_back(t.kld);
  std::ranges::sort(sorted);
  return {.kld = MeanOf(tokens, [](const TokenDivergence& t) { return t.kld; }),
          .kld_median = Quantile(sorted, 0.5),
          .kld_90 = Quantile(sorted, 0.9),
          .kld_95 = Quantile(sorted, 0.95),
          .kld_99 = Quantile(sorted, 0.99),
          .kld_999 = Quantile(sorted, 0.999),
          .kld_largest = sorted.back(),
          .same_top = ShareOf(tokens, &TokenDivergence::same_top),
          .delta_p = MeanOf(tokens, DeltaP),
          .delta_p_rms = std::sqrt(MeanOf(tokens, [](const TokenDivergence& t) { return DeltaP(t) * DeltaP(t); }).mean),
          .log_ratio = MeanOf(tokens, [](const TokenDivergence& t) { return t.loss - t.reference_loss; })};
}

std::vector<DivergenceInContext> ByContext(std::span<const TokenDivergence> tokens) {
  std::vector<int64_t> contexts;
  for (const TokenDivergence& t : tokens) contexts.push_back(t.context);
  std::vector<DivergenceInContext> all;
  for (const ContextRange& range : RangesOf(contexts)) {
    DivergenceInContext& some = all.emplace_back(
        DivergenceInContext{.first = range.first, .last = range.last, .tokens = std::ssize(range.tokens)});
    for (const size_t i : range.tokens) {
      some.kld += tokens[i].kld;
      some.log_ratio += tokens[i].loss - tokens[i].reference_loss;
    }
    some.kld /= static_cast<double>(some.tokens);
    some.log_ratio /= static_cast<double>(some.tokens);
  }
  return all;
}

}  // namespace tare
