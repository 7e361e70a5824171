// SPDX-License-Identifier: Apache-2.0
// +smooth<N> of q: the mean m of every N queries is not rounded. R: rounding; k: keys before it, K: after it. Logits:
//
//   scale (R(q - m) K' + m k')
//
// which is SageAttention's smoothing of Q (arXiv 2411.10958, 3.1; thu-ml/SageAttention d1a57a5, sageattn3/api.py), but
// for a mean of k, the same for all logits of a row. A short last run counts zeros, as in public code; m is exact.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/plan/resolved_plan.h"
#include "quant/observe/site_visitor.h"

namespace tare {

// [ceil(rows / n)][columns] of a block with all tokens of a sequence.
std::vector<float> MeansOfRuns(const SiteBlock& block, int n);

// Looks at q and k before rounding (RowChange subtracts means); adds to attn_logits. Place it before the quantizer.
class QueryMeans : public SiteVisitor {
 public:
  // The plan must outlive it.
  explicit QueryMeans(const ResolvedPlan& plan);

  bool Wants(Site site, std::optional<int> layer) const override;
  bool Changes() const override { return true; }
  // The quantizer's survey is of logits with these products.
  bool NeedsSurvey(Site site, std::optional<int> layer) const override;
  void BeginBatch(int64_t slots) override;
  void Survey(const SiteBlock& block, int thread) override { Visit(block, thread); }
  void Visit(const SiteBlock& block, int thread) override;

 private:
  struct Means {
    int each = 0;  // 0: the rule at these queries has no +smooth<N>
    int64_t width = 0;
    std::vector<float> values;  // [ceil(queries / each)][width]
  };
  void AddProducts(const SiteBlock& block) const;

  const ResolvedPlan& plan_;
  bool any_;
  std::mutex mutex_;
  // By slot and head, of the layer that runs. A layer without keys of its own reads those of the last one with some.
  std::map<std::pair<int, int>, Means> means_;
  std::map<std::pair<int, int>, std::vector<float>> keys_;
};

}  // namespace tare
