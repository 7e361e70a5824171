// SPDX-License-Identifier: Apache-2.0
// One query of one sequence over a cache that is already filled, and filling one, which quantizes and packs.
#include <memory>

#include "quant/base/message.h"
#include "quant/format/round.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/random_decode.h"
#include "tests/support/wrong.h"

namespace tare {
namespace {

struct CacheRow {
  std::string name;
  CacheRules rules;
};

// Every format with a scale per token, then scales per channel, KIVI's, and formats with blocks.
std::vector<CacheRow> CacheRows() {
  std::vector<CacheRow> rows;
  for (const Format& format : kCachedFormats) rows.push_back({Name(format), {.k = {format}, .v = {format}}});
  constexpr Granularity kChannel = {Granularity::Kind::kChannel}, kTokens = {Granularity::Kind::kBlockChannel, 32},
                        kChannels = {Granularity::Kind::kGroup, 32};
  constexpr Format kTwoBits = WithRange(Format::kInt2, CodeRange::kMin);
  rows.push_back({"int4_k_channel", {.k = {Format::kInt4, kChannel}, .v = {Format::kInt4}}});
  rows.push_back({"int4_hadamard", {.k = {.format = Format::kInt4, .hadamard = RotatedRuns{}}, .v = {Format::kInt4}}});
  rows.push_back({"int2_kivi", {.k = {kTwoBits, kTokens}, .v = {kTwoBits, kChannels}}});
  for (const Format::Base format : {Format::kMxFp4, Format::kMxFp8E4M3, Format::kNvFp4}) {
    const CacheRule blocks{format, {Granularity::Kind::kGroup, Info(format).block}};
    rows.push_back({Name(format), {.k = blocks, .v = blocks}});
  }
  return rows;
}

AttentionShape OneQuery(const ModelShape& s, int64_t n) {
  return {.family = s.kind, .heads = s.heads, .kv = s.kv, .queries = 1, .keys = n, .d = s.d, .v_width = s.v_width};
}

KernelCase Decode(const ModelShape& shape, const CacheRules& rules, int64_t n) {
  struct State : RandomDecode {
    using RandomDecode::RandomDecode;
    AlignedBuffer<std::byte> workspace;
  };
  const auto x = std::make_shared<State>(OneQuery(shape, n), rules);
  const DecodeSequence sequence = x->sequence();
  x->workspace.Reset(DecodeWorkspaceBytes(x->table, {&sequence, 1}));
  const double bytes = CacheBytes(x->cache.shape(), rules, n);
  return {.run =
              [=] {
                const DecodeSequence one = x->sequence();
                DecodeAttention(x->table, {&one, 1}, x->workspace.span());
              },
          .wrong =
              [=] {
                std::string wrong;
                for (const int head : {0, x->table.heads() - 1})
                  if (wrong.empty())
                    wrong = WrongValue("error over its bound, head", head, WorstRowOfHead(*x, head), 0, 1);
                return wrong;
              },
          .work = {.items = static_cast<double>(n) * shape.heads,
                   .item = "key_and_head",
                   .bytes = bytes,
                   .limit = Limit::kRead,
                   .memory = bytes}};
}

// A value read back is within half a step, and a hair, of what was appended, with a zero point within a whole one; of
// bf16 within half a unit; of a grid what the rule says.
std::string WrongCache(const RandomDecode& x, const CacheRules& rules) {
  const HeadsView<const float>& v = x.tensors.problem.v;
  std::vector<float> got(static_cast<size_t>(v.width));
  std::string wrong;
  for (const int64_t t : {int64_t{0}, v.tokens / 2, v.tokens - 1}) {
    for (int head = 0; head < v.heads && wrong.empty(); ++head) {
      x.cache.ReadValue(t, head, got.data());
      const auto [low, high] = std::minmax_element(v.Row(t, head), v.Row(t, head) + v.width);
      const FormatInfo& info = Info(rules.v.format);
      const float size = std::max(std::abs(*low), std::abs(*high));
      const float range = HasOffset(rules.v.format) ? 2 * (std::max(*high, 0.0f) - std::min(*low, 0.0f)) : size;
      const GroupScale group =
          GroupScaleFor(EndsOf({v.Row(t, head), v.Row(t, head) + v.width}, rules.v.format), rules.v.format, 0);
      const float step = HasCodes(rules.v.format)          ? range / info.Largest()
                         : rules.v.format == Format::kBf16 ? size * 0x1p-7f
                                                           : 0.0f;
      for (int i = 0; i < v.width && wrong.empty(); ++i) {
        const float held = v.Row(t, head)[i];
        const bool grid = HasCodes(rules.v.format) && !IsInteger(rules.v.format);
        wrong = WrongValue(Formatted("value of token {}, head {}, channel", t, head), i, got[i],
                           grid ? ValueOf(RoundedIn(held, group, rules.v.format), group) : held,
                           grid ? 0 : 0.51 * double{step});
      }
    }
  }
  return wrong;
}

KernelCase Append(const ModelShape& shape, const CacheRules& rules, int64_t n) {
  const auto x = std::make_shared<RandomDecode>(OneQuery(shape, n), rules);
  const double values =
      static_cast<double>(n) * (x->cache.shape().k_heads * shape.d + x->cache.shape().v_heads * shape.v_width);
  return {.run =
              [=] {
                x->cache.Truncate(0);
                x->cache.Append(x->tensors.problem.k, x->tensors.problem.v);
              },
          .wrong = [=] { return WrongCache(*x, rules); },
          .work = {.items = values, .item = "value", .bytes = 4 * values, .limit = Limit::kRead, .memory = 4 * values}};
}

}  // namespace

void AddDecodeRows(std::vector<KernelRow>& table) {
  for (const CacheRow& row : CacheRows()) {
    for (const ModelShape& shape : kModelShapes) {
      table.push_back({.name = Formatted("DecodeAttention/decode/{}/{}/{}", shape.family, row.name, shape.name),
                       .size_name = "N",
                       .sizes = kLengths,
                       .tested = 200,
                       .make = [=](int64_t n, Extent) { return Decode(shape, row.rules, n); }});
    }
  }
  for (const Format& format : kCachedFormats) {
    const CacheRules rules{.k = {format}, .v = {format}};
    const ModelShape& shape = kModelShapes[4];
    table.push_back({.name = Formatted("KvCache/quantize_pack_append/{}/{}", Name(format), shape.name),
                     .size_name = "N",
                     .sizes = {512, 4096},
                     .tested = 200,
                     .runs = Runs::kOnOneThread,
                     .make = [=](int64_t n, Extent) { return Append(shape, rules, n); }});
  }
}

}  // namespace tare
