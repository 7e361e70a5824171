// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/token_divergence.h"

#include <cmath>
#include <ranges>

#include "experiments/significance/mean_error.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// Sums before they are divided: a share is a quotient of counts, and a sum of quotients may exceed 1.
MeanAndError MeanOf(std::span<const TokenDivergence> tokens, double (*of)(const TokenDivergence&)) {
  double sum = 0;
  for (const TokenDivergence& t : tokens) sum += of(t);
  const std::optional<MeanError> error = PairedError(ByWindow(tokens, of));
  return {sum / static_cast<double>(tokens.size()), error ? std::optional(error->error) : std::nullopt};
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
  auto sorted = tokens | std::views::transform(&TokenDivergence::kld) | std::ranges::to<std::vector>();
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

}  // namespace tare
