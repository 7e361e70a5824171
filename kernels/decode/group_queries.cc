// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/group_queries.h"

#include <algorithm>

#include "kernels/attention/exponentials.h"
#include "quant/format/hadamard.h"

namespace tare {

using Part = KvCache::Part;

void GroupQueries::Load() const {
  for (int64_t i = 0; i < Rows(); ++i) {
    float* q = x_.q + i * inputs_;
    std::fill_n(q, inputs_, 0.0f);
    const float* query = s_.q.Row(i % s_.q.tokens, group_.rows[i / s_.q.tokens].q);
    const Hadamard* rotation = s_.cache->KeysBeforeRotary() ? nullptr : s_.cache->KeyRotation();
    if (rotation != nullptr) {
      rotation->Rotate(query, q);
    } else {
      std::copy_n(query, table_.shape().k_width, q);
    }
    x_.keys[i] = {.x = q, .y = x_.logits + i * kPageTokens};
    LoadPlanes(i, nullptr);
  }
}

void GroupQueries::LoadPlanes(int64_t i, const float* weights) const {
  PanelFactor& factor = x_.keys[i];
  ToPlanes(x_.q + i * inputs_, weights, inputs_, x_.q_high + i * inputs_, x_.q_low + i * inputs_, factor);
}

// Scales per channel are the inputs': they multiply the queries, which become planes anew for each run of the page's
// tokens, and the minima add one number to every logit of the run. Scales per token are the lanes'. The softmax
// multiplies by them, unless there are minima: these are added after the scales, so that the product must have both.
void GroupQueries::WeighQueries(const Part& part, int head, int run, std::span<PanelFactor> factors) const {
  const PageLayout& layout = *part.layout;
  const CacheRule& rule = layout.k();
  if (rule.ByChannel()) {
    alignas(64) float memory[2 * kLargestWidth];
    const auto [scales, minima] = layout.KeyInputScales(part.k, head, run, memory);
    for (PanelFactor& factor : factors) {
      LoadPlanes(&factor - x_.keys, scales);
      if (minima != nullptr) factor.beside = CentreSum(rule.format, factor.x, scales, minima, inputs_);
    }
  } else if (rule.HasMinima()) {
    for (PanelFactor& factor : factors) {
      factor.lane_scales = reinterpret_cast<const float*>(part.k + layout.KeyScales(head));
      factor.lane_minima = reinterpret_cast<const float*>(part.k + layout.KeyMinima(head));
    }
  }
}

// Keys before rotary as they count, in f32.
void GroupQueries::MultiplyTurned(const Part& part, int64_t page, int head,
                                  std::span<const PanelFactor> factors) const {
  float key[kLargestWidth];
  std::fill_n(x_.panel, inputs_ * kPageTokens, 0.0f);
  for (int64_t token = part.keys.begin; token < part.keys.end; ++token) {
    s_.cache->ReadKey(page * kPageTokens + token, head, key);
    for (int i = 0; i < table_.shape().k_width; ++i) x_.panel[i * kPageTokens + token] = key[i];
  }
  PanelProduct({Format::kF32, reinterpret_cast<const std::byte*>(x_.panel), inputs_}, factors, ReadHint::kNone);
}

void GroupQueries::Multiply(const Part& part, int64_t page) const {
  const PageLayout& layout = *part.layout;
  const int64_t queries = s_.q.tokens;
  std::fill_n(x_.logits, Rows() * kPageTokens, 0.0f);
  for (size_t i = 0, end = 0; i < group_.rows.size(); i = end) {
    const int head = group_.rows[i].k;
    while (end < group_.rows.size() && group_.rows[end].k == head) ++end;
    const std::span<PanelFactor> factors(x_.keys + i * queries, (end - i) * queries);
    if (s_.cache->KeysBeforeRotary()) {
      MultiplyTurned(part, page, head, factors);
      continue;
    }
    for (int run = 0; run < layout.KeyRuns(); ++run) {
      WeighQueries(part, head, run, factors);
      PanelProduct({.format = layout.k().format,
                    .first = part.k + layout.Key(head),
                    .inputs = layout.KeyInputs(),
                    .begin = layout.KeyRun(run).begin,
                    .end = layout.KeyRun(run).end,
                    .behind = run + 1 == layout.KeyRuns()
                                  ? layout.Key(1) - layout.Key(0) - PanelBytes(layout.k().format, layout.KeyInputs())
                                  : 0},
                   factors, BestReadHint());
    }
  }
}

// Keys of the part that a query sees, from the page's first.
KeyRange GroupQueries::Visible(const Part& part, int64_t page, int64_t query) const {
  const int64_t end = s_.cache->tokens() - s_.newer - s_.q.tokens + query + 1 - page * kPageTokens;
  const int64_t begin = table_.window() == 0 ? part.keys.begin : end - table_.window();
  return {std::clamp(begin, part.keys.begin, part.keys.end), std::clamp(end, part.keys.begin, part.keys.end)};
}

PartLogits GroupQueries::Logits(const Part& part, int64_t page, int64_t i) const {
  const PageLayout& layout = *part.layout;
  const CacheRule& rule = layout.k();
  const bool by_token =
      HasCodes(rule.format) && !rule.ByChannel() && !rule.HasMinima() && !s_.cache->KeysBeforeRotary();
  const std::byte* scales = part.k + layout.KeyScales(group_.rows[i / s_.q.tokens].k);
  return {.products = x_.logits + i * kPageTokens,
          .key_scales = by_token ? reinterpret_cast<const float*>(scales) : nullptr,
          .factor = table_.scale() * kLog2E,
          .cap = table_.softcap() * kLog2E,
          .keys = part.keys,
          .seen = Visible(part, page, i % s_.q.tokens)};
}

}  // namespace tare
