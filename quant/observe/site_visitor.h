// SPDX-License-Identifier: Apache-2.0
// The only hook of statistics, dumps and simulated quantization into a forward pass: the pass shows blocks of a site's
// values to visitors, in order. A quantizer changes them in place; an observer after it sees the values that the model
// uses. A pass calls Wants once per site and layer, so a pass without visitors costs nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "quant/plan/site.h"

namespace tare {

// Rows of one site's values. Row r holds the columns First(r) to Columns(r) that the mask lets through, at values + r *
// stride.
//
//   attn_logits, probs   at most 64 queries x keys; `head` the checkpoint's query head, `map` 1 or 2
//   difference           at most 64 queries x keys; `head` the output head, no `map`; only of heads with two maps
//   q, k, v, head_out    all tokens of one sequence x the channels of one head;
//                        `head` the query head (q), key/value head (k, v) or output head (head_out);
//                        `map` 1 or 2 where only that map uses a head of q or k, else none
//   others               at most 64 tokens of one sequence x channels; no `head`, no `map`
struct SiteBlock {
  Site site{};
  std::optional<int> layer;  // empty outside the layers
  int64_t sequence = 0;      // index in the whole input
  int slot = 0;              // index in the batch
  std::optional<int> head;
  std::optional<int> map;
  int64_t first_row = 0;  // position in the sequence
  int64_t batch_row = 0;  // the first row's place among the batch's tokens; for sites outside attention's products
  int64_t rows = 0;
  int64_t first_columns = 0;  // Columns(0)
  int64_t column_step = 0;    // 1 under a causal mask, else 0
  int64_t window = 0;         // sliding window: only the last `window` of these columns; 0: all
  float* values = nullptr;
  int64_t stride = 0;
  // In probs of a head with a learned sink, the sink's shares [rows]: 1 less the row's sum; null: no sink.
  const float* sink_shares = nullptr;
  // In attn_logits, the head of k, and what products of its keys and the queries are multiplied by.
  int key_head = 0;
  float scale = 1.0f;

  SiteKey key() const { return {site, layer, head, map}; }
  int64_t Columns(int64_t r) const { return first_columns + r * column_step; }
  int64_t First(int64_t r) const { return window == 0 ? 0 : std::max<int64_t>(0, Columns(r) - window); }
  std::span<float> Row(int64_t r) const {
    return {values + r * stride + First(r), static_cast<size_t>(Columns(r) - First(r))};
  }
};

class SiteVisitor {
 public:
  virtual ~SiteVisitor() = default;
  virtual bool Wants(Site site, std::optional<int> layer) const = 0;
  // Whether Visit changes values.
  virtual bool Changes() const { return false; }
  // A batch of `slots` sequences begins.
  virtual void BeginBatch(int64_t /*slots*/) {}
  // A scale that spans rows must be known before the first: the pass shows Survey every block, and only then Visit.
  virtual bool NeedsSurvey(Site, std::optional<int> /*layer*/) const { return false; }
  virtual void Survey(const SiteBlock&, int /*thread*/) {}
  // Called from several threads at once, with blocks in any order.
  virtual void Visit(const SiteBlock& block, int thread) = 0;
};

using SiteVisitors = std::span<SiteVisitor* const>;

inline bool AnyWants(SiteVisitors visitors, Site site, std::optional<int> layer) {
  return std::ranges::any_of(visitors, [&](const SiteVisitor* v) { return v->Wants(site, layer); });
}

inline bool AnyNeedsSurvey(SiteVisitors visitors, Site site, std::optional<int> layer) {
  return std::ranges::any_of(
      visitors, [&](const SiteVisitor* v) { return v->Wants(site, layer) && v->NeedsSurvey(site, layer); });
}

inline void Visit(SiteVisitors visitors, const SiteBlock& block, int thread) {
  for (SiteVisitor* v : visitors) {
    if (v->Wants(block.site, block.layer)) v->Visit(block, thread);
  }
}

inline void Survey(SiteVisitors visitors, const SiteBlock& block, int thread) {
  for (SiteVisitor* v : visitors) {
    if (v->Wants(block.site, block.layer) && v->NeedsSurvey(block.site, block.layer)) v->Survey(block, thread);
  }
}

}  // namespace tare
