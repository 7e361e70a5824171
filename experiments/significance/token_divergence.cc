// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/token_divergence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "experiments/significance/mean_error.h"
#include "quant/base/error.h"

namespace tare {
namespace {

// Sums before they are divided: a share is a quotient of counts, and a sum of quotients may exceed 1.
MeanAndError MeanOf(std::span<const TokenDivergence> tokens, const std::function<double(const TokenDivergence&)>& of) {
  std::vector<double> values;
  std::vector<size_t> windows;
  for (const TokenDivergence& t : tokens) values.push_back(of(t)), windows.push_back(t.window);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const std::optional<MeanError> error = PairedError(ByWindow(values, windows));
  return {sum / static_cast<double>(values.size()), error ? std::optional(error->error) : std::nullopt};
}

double Kld(const TokenDivergence& t) { return t.kld; }
double SameTop(const TokenDivergence& t) { return t.same_top ? 1 : 0; }
double LogRatio(const TokenDivergence& t) { return t.loss - t.reference_loss; }

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
  return {.kld = MeanOf(tokens, Kld),
          .kld_median = Quantile(sorted, 0.5),
          .kld_90 = Quantile(sorted, 0.9),
          .kld_95 = Quantile(sorted, 0.95),
          .kld_99 = Quantile(sorted, 0.99),
          .kld_999 = Quantile(sorted, 0.999),
          .kld_largest = sorted.back(),
          .same_top = MeanOf(tokens, SameTop),
          .delta_p = MeanOf(tokens, DeltaP),
          .delta_p_rms = std::sqrt(MeanOf(tokens, [](const TokenDivergence& t) { return DeltaP(t) * DeltaP(t); }).mean),
          .log_ratio = MeanOf(tokens, LogRatio)};
}

std::vector<DivergenceInContext> ByContext(std::span<const TokenDivergence> tokens) {
  std::vector<int64_t> contexts;
  for (const TokenDivergence& t : tokens) contexts.push_back(t.context);
  std::vector<DivergenceInContext> all;
  for (const ContextRange& range : RangesOf(contexts)) {
    std::vector<TokenDivergence> some;
    for (const size_t i : range.tokens) some.push_back(tokens[i]);
    all.push_back({.first = range.first,
                   .last = range.last,
                   .tokens = std::ssize(range.tokens),
                   .kld = MeanOf(some, Kld),
                   .log_ratio = MeanOf(some, LogRatio)});
  }
  return all;
}

}  // namespace tare
