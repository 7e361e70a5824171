// SPDX-License-Identifier: Apache-2.0
// +smooth<N> of q: the mean m of every N queries is not rounded, only what is left of them. With R for rounding, k the
// keys before it and K those after it, logits are
//
//   scale (R(q - m) K' + m k')
//
// which is SageAttention's smoothing of Q (arXiv 2411.10958, 3.1; thu-ml/SageAttention d1a57a5, sageattn3/api.py), but
// for a mean of k, which adds the same to all logits of a row. A last run of fewer queries counts zeros as its others:
// public code pads it so, and what is subtracted is exact whatever it is.
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

// Looks at q and k, whose rounding comes after it (RowChange subtracts the means), and adds the means' products to
// attn_logits. Place it before the quantizer.
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
