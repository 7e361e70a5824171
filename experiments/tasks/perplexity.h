// SPDX-License-Identifier: Apache-2.0
// Perplexity of a text: exp of the mean negative log-likelihood per token, in nats. Each token is scored once, given as
// much context as the window allows (experiments/sequences/windows.h); text windows begin with the checkpoint's `<s>`.
#pragma once

#include <cstdint>

#include "experiments/sequences/sequences.h"

namespace tare {

struct PerplexityResult {
  double nll = 0;         // mean, nats per token
  double nll_stderr = 0;  // sample standard deviation over tokens / sqrt(tokens), as if tokens were independent
  double perplexity = 0;  // exp(nll)
  int64_t tokens = 0;     // scored
  int64_t windows = 0;
};

PerplexityResult MeasurePerplexity(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                                   const Progress& progress);

}  // namespace tare
