// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decode_work.h"

#include <algorithm>

#include "kernels/attention/exponentials.h"
#include "quant/base/integers.h"
#include "quant/format/hadamard.h"

namespace tare {

using Part = KvCache::Part;

Panels PanelsOf(const PageSide& side, const std::byte* page, int head, int run, int64_t inputs) {
  const LaneRun lanes = side.Run(run);
  const bool in_blocks = side.InBlocks(), keys = side.lanes() == PageSide::Lanes::kTokens;
  return {.format = side.rule().format,
          .first = page + side.Panel(head) + lanes.panel * side.PanelBytes(),
          .inputs = inputs,
          .count = lanes.panels,
          .bytes = side.PanelBytes(),
          .begin = lanes.begin,
          .end = lanes.end,
          .behind = run + 1 == side.Runs() ? side.ScaleBytes() : 0,
          .group = in_blocks && keys ? side.rule().granularity.n : inputs,
          .weights = in_blocks && !keys ? Panels::Weights::kOfQuarters : Panels::Weights::kOfAll};
}

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
    LoadFactor(i, s_.cache->rules().k.format, nullptr);
  }
}

void GroupQueries::LoadFactor(int64_t i, const Format& format, const float* weights) const {
  ToFactor(format, x_.q + i * inputs_, weights, inputs_, x_.q_factors + i * inputs_, x_.keys[i]);
}

// Scales per channel, or of all, are the inputs': they multiply the queries, anew for each run of the page's tokens,
// and minima add one number to every logit of the run. Scales per token are the lanes': the softmax multiplies by them,
// unless minima are added after the scales, so that the product must have both, or each group of channels has its own.
void GroupQueries::WeighQueries(const Part& part, int head, int run, float* scales,
                                std::span<PanelFactor> factors) const {
  const PageSide& keys = part.layout->k();
  const CacheRule& rule = keys.rule();
  if (rule.WeighsQueries()) {
    alignas(64) float memory[2 * kLargestWidth];
    const auto [of_inputs, minima] = keys.InputScales(part.k, head, run, memory);
    for (PanelFactor& factor : factors) {
      LoadFactor(&factor - x_.keys, rule.format, of_inputs);
      if (minima != nullptr) factor.beside = CentreSum(rule.format, factor.x, of_inputs, minima, inputs_);
    }
  } else if (rule.HasMinima()) {
    for (PanelFactor& factor : factors) {
      factor.lane_scales = reinterpret_cast<const float*>(part.k + keys.Scales(head));
      factor.lane_minima = reinterpret_cast<const float*>(part.k + keys.Minima(head));
    }
  } else if (keys.InBlocks()) {
    const float* const of_lanes = keys.LaneScales(part.k, head, scales);
    for (PanelFactor& factor : factors) factor.lane_scales = of_lanes;
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
  PanelProduct({Format::kF32, reinterpret_cast<const std::byte*>(x_.panel), inputs_}, factors, ReadHint::kNear);
}

void GroupQueries::Multiply(const Part& part, int64_t page) const {
  const PageSide& keys = part.layout->k();
  const int64_t queries = s_.q.tokens;
  alignas(64) float scales[kLargestWidth / 16 * kPageTokens];
  std::fill_n(x_.logits, Rows() * kPageTokens, 0.0f);
  for (size_t i = 0, end = 0; i < group_.rows.size(); i = end) {
    const int head = group_.rows[i].k;
    while (end < group_.rows.size() && group_.rows[end].k == head) ++end;
    const std::span<PanelFactor> factors(x_.keys + i * queries, (end - i) * queries);
    if (s_.cache->KeysBeforeRotary()) {
      MultiplyTurned(part, page, head, factors);
      continue;
    }
    for (int run = 0; run < keys.Runs(); ++run) {
      WeighQueries(part, head, run, scales, factors);
      PanelProduct(PanelsOf(keys, part.k, head, run, keys.Inputs()), factors, BestReadHint());
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
  const PageSide& keys = part.layout->k();
  const CacheRule& rule = keys.rule();
  const bool by_token = HasCodes(rule.format) && !rule.WeighsQueries() && !rule.HasMinima() && !keys.InBlocks() &&
                        !s_.cache->KeysBeforeRotary();
  const std::byte* scales = part.k + keys.Scales(group_.rows[i / s_.q.tokens].k);
  return {.products = x_.logits + i * kPageTokens,
          .key_scales = by_token ? reinterpret_cast<const float*>(scales) : nullptr,
          .factor = table_.scale() * kLog2E,
          .cap = table_.softcap() * kLog2E,
          .keys = part.keys,
          .seen = Visible(part, page, i % s_.q.tokens)};
}

Cuts::Cuts(const DecodeHeads& table, const DecodeSequence& s) {
  const int64_t seen = s.cache->tokens() - s.newer;               // by the last query
  const int64_t oldest = seen - s.q.tokens + 1 - table.window();  // that the first query sees
  first = table.window() == 0 ? 0 : std::max<int64_t>(0, oldest) / kPageTokens;
  end = s.q.tokens == 0 ? first : std::max(first, CeilDiv(std::max<int64_t>(0, seen), kPageTokens));
  pages = std::max(kFewestPages, CeilDiv(end - first, kMostChunks));
  chunks = CeilDiv(end - first, pages);
  runs = std::clamp<int64_t>(kFewestUnits / std::max<int64_t>(1, chunks), 1, std::ssize(table.groups()));
}

DecodeLayout::DecodeLayout(const DecodeHeads& table, std::span<const DecodeSequence> sequences)
    : table_(table), sequences_(sequences), page_(table.shape(), {}, {}) {
  for (const DecodeSequence& s : sequences) {
    const int64_t queries = QueriesAtOnce(s);
    rounds_ = std::max(rounds_, CeilDiv(s.q.tokens, queries));
    queries_ = std::max(queries_, std::min(queries, s.q.tokens));
    before_rotary_ = before_rotary_ || s.cache->KeysBeforeRotary();
    in_blocks_ = in_blocks_ || s.cache->rules().v.InBlocks();
  }
  maps_ = Maps(queries_);
  for (int64_t round = 0; round < rounds_; ++round) {
    for (const DecodeSequence& s : sequences) {
      const Cuts cuts(table, OfRound(s, round));
      units_ = std::max(units_, cuts.chunks * cuts.runs);
    }
  }
}

// The queries of a round. It counts the exponentials of all pages, because the last round sees all.
int64_t DecodeLayout::QueriesAtOnce(const DecodeSequence& s) const {
  const int64_t bytes = Cuts(table_, s).end * table_.rows() * kPageTokens * static_cast<int64_t>(sizeof(float));
  return std::max<int64_t>(1, kMostKeptBytes / std::max<int64_t>(1, bytes));
}

int64_t DecodeLayout::Maps(int64_t queries) const { return RoundUp(table_.rows() * queries, kMapsAtOnce); }

DecodeSequence DecodeLayout::OfRound(const DecodeSequence& s, int64_t round) const {
  const int64_t queries = QueriesAtOnce(s), first = std::min(round * queries, s.q.tokens);
  DecodeSequence part = s;
  part.q.tokens = part.out.tokens = part.lse.tokens = std::min(queries, s.q.tokens - first);
  part.q.data += first * s.q.token_stride;
  part.out.data += first * s.out.token_stride;
  if (s.lse.data != nullptr) part.lse.data += first * s.lse.token_stride;
  if (table_.differential()) part.lambda.data += first * s.lambda.token_stride;
  part.newer = s.newer + s.q.tokens - first - part.q.tokens;
  return part;
}

// Memory for each sequence's largest round, with all pages that any round sees.
std::span<DecodeWork> DecodeLayout::TakePacked(Arena& arena) const {
  const auto count = std::ssize(sequences_);
  auto* list = arena.Take<DecodeWork>(count);
  for (int64_t i = 0; i < count; ++i) {
    const DecodeSequence& s = sequences_[i];
    const Cuts cuts(table_, s);
    const int64_t queries = std::min(QueriesAtOnce(s), s.q.tokens), pages = cuts.end - cuts.first;
    const int64_t maps = Maps(queries);
    const int64_t width = page_.v().Panels() * kPanelLanes;
    const int64_t parts = cuts.Parts() + (s.sinks.empty() ? 0 : 1);
    const int64_t chunks = std::min(CeilDiv(pages, kFewestPages), kMostChunks);  // of fewer pages, too
    const DecodeWork work{.s = s,
                          .p = arena.Take<float>(pages * table_.rows() * queries * kPageTokens),
                          .max = arena.Take<float>(parts * maps),
                          .sum = arena.Take<float>(parts * maps),
                          .total_max = arena.Take<float>(maps),
                          .inverse = arena.Take<float>(maps),
                          .o = arena.Take<float>(chunks * table_.products() * queries * width)};
    if (arena.end() != arena.used()) list[i] = work;  // not counting alone
  }
  return {list, static_cast<size_t>(count)};
}

DecodeScratch DecodeLayout::TakeScratch(Arena& taken) const {
  const DecodeScratch scratch{taken, *this};
  taken = scratch.arena;
  return scratch;
}

}  // namespace tare
