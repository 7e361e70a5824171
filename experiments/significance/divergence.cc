// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/divergence.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "experiments/significance/context_ranges.h"
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

double DeltaP(const TokenDivergence& t) { return std::exp(-t.loss) - std::exp(-t.reference_loss); }

}  // namespace

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
          .same_top = MeanOf(tokens, [](const TokenDivergence& t) { return t.same_top ? 1.0 : 0.0; }),
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
