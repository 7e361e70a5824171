// SPDX-License-Identifier: Apache-2.0
// Checks of calls, and head tables (microsoft/unilm Diff-Transformer, HF diffllama; grouped: arXiv 2510.06949).
#include "kernels/attention/heads.h"

#include <cmath>

#include "kernels/elementwise/rows.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

void CheckView(const char* name, const FloatHeads<const float>& view) {
  if (const std::string wrong = WrongIn(view); !wrong.empty()) Fail("attention {}: {}", name, wrong);
}

void CheckValues(const char* name, const FloatHeads<const float>& x) {
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int h = 0; h < x.heads; ++h) CheckRow(name, x, t, h);
  }
}

// Where a view's values lie; of one that is not dense, between whose values others may lie, the first alone.
std::pair<uintptr_t, uintptr_t> PlaceOf(const FloatHeads<const float>& x) {
  const bool dense = x.head_stride == x.width && x.token_stride == int64_t{x.heads} * x.width;
  const int64_t bytes = x.halves == nullptr ? sizeof(float) : sizeof(uint16_t);
  const auto begin = reinterpret_cast<uintptr_t>(x.data) + reinterpret_cast<uintptr_t>(x.halves);  // one is null
  return {begin, begin + static_cast<uintptr_t>(bytes * (dense ? x.tokens * x.token_stride : 1))};
}

void CheckApart(const char* name, const FloatHeads<const float>& x, const FloatHeads<float>& out) {
  const auto [begin, end] = PlaceOf(x);
  const auto [out_begin, out_end] = PlaceOf(ReadOnly(out));
  if (x.tokens > 0 && out.tokens > 0 && begin < out_end && out_begin < end)
    Fail("attention out: got memory that {} lies in, expected memory of its own", name);
}

void CheckIndex(const char* name, size_t row, int index, int heads) {
  if (index < 0 || index >= heads)
    Fail("attention head table, row {}: got {} {}, expected 0 to {}", row, name, index, heads - 1);
}

void CheckTableRow(const AttentionProblem& problem, size_t row) {
  const OutputHead& head = problem.heads[row];
  CheckIndex("q1", row, head.q1, problem.q.heads);
  CheckIndex("k1", row, head.k1, problem.k.heads);
  for (int i = 0; i < head.VSlices(); ++i) CheckIndex("v", row, head.v[i], problem.v.heads);
  if (int64_t{head.VSlices()} * problem.v.width != problem.out.width)
    Fail("attention head table, row {}: got {} slices of V of width {}, expected the output's width {}", row,
         head.VSlices(), problem.v.width, problem.out.width);
  if (!head.Differential()) return;
  CheckIndex("q2", row, head.q2, problem.q.heads);
  CheckIndex("k2", row, head.k2, problem.k.heads);
  if (problem.lambda.data == nullptr) Fail("attention head table, row {}: a second map, but no lambda", row);
}

void CheckHeads(int heads, int kv, const char* family) {
  if (heads < 1 || kv < 1 || heads % kv != 0)
    Fail("{} heads: got {} over {} key/value heads, expected a multiple", family, heads, kv);
  if (heads > kMostHeads) Fail("{} heads: got {}, expected at most {}", family, heads, kMostHeads);
}

// row(h, v): of output head h and the head of values of its group.
template <typename Row>
std::vector<OutputHead> GroupedBy(int heads, int kv, const char* family, Row row) {
  CheckHeads(heads, kv, family);
  std::vector<OutputHead> table;
  for (int h = 0; h < heads; ++h) table.push_back(row(h, h / (heads / kv)));
  return table;
}

void CheckVariant(const AttentionProblem& problem) {
  const bool threshold = problem.weights == RowWeights::kThreshold, integral = problem.integral != Integral::kNone;
  const auto fail = [&](const std::string& got, std::string_view expected) {
    Fail("attention with {}: got {}, expected {}", VariantName(problem.weights, problem.integral), got, expected);
  };
  if (threshold ? !(problem.beta >= 0) || !std::isfinite(problem.beta) : problem.beta != 0)
    fail(Formatted("beta {}", problem.beta), threshold ? "a finite number from 0 on" : "none");
  if (threshold || problem.integral == Integral::kCausal ? problem.mask.kind != Mask::Kind::kCausal
                                                         : integral && problem.mask.kind == Mask::Kind::kWindow)
    fail("another mask", integral ? "causal, or with dint-all none" : "causal");
  if (integral && !std::ranges::all_of(problem.heads, &OutputHead::Differential)) fail("heads with one map", "two");
}

void CheckLse(const AttentionProblem& problem) {
  const HeadsView<float>& lse = problem.lse;
  if (lse.data == nullptr) return;
  int maps = 1;
  for (const OutputHead& head : problem.heads) maps = std::max(maps, head.Maps());
  if (lse.tokens != problem.q.tokens || lse.heads != problem.out.heads || lse.width != maps)
    Fail("attention lse: got {} tokens of {} heads and {} maps, expected {} of {} and {}", lse.tokens, lse.heads,
         lse.width, problem.q.tokens, problem.out.heads, maps);
}

}  // namespace

HeadsView<const float> Widened(const FloatHeads<const float>& x, int head, int64_t first, int64_t count,
                               float* memory) {
  if (x.halves == nullptr) return x;
  for (int64_t row = 0; row < std::min(count, x.tokens - first); ++row) {
    const uint16_t* const from = x.halves + x.Offset(first + row, head);
    float* const to = memory + row * x.width;
    if (x.type == HalfType::kBf16)
      std::transform(from, from + x.width, to, FloatFromBf16);
    else
      std::transform(from, from + x.width, to, FloatFromF16);
  }
  return {memory - first * x.width, x.tokens, x.heads, x.width, x.width, 0};
}

void StoreRow(const FloatHeads<float>& out, int64_t token, int head, int64_t first, const float* values, int64_t n) {
  const int64_t at = out.Offset(token, head) + first;
  if (out.halves == nullptr)
    std::copy_n(values, n, out.data + at);
  else if (out.type == HalfType::kBf16)
    ToBf16(values, static_cast<size_t>(n), out.halves + at);
  else
    std::transform(values, values + n, out.halves + at, F16FromFloat);
}

std::string WrongIn(const FloatHeads<const float>& x) {
  constexpr int64_t kMostValues = int64_t{1} << 40;
  if (x.tokens < 0 || x.heads < 1 || x.width < 1)
    return Formatted("got {} tokens, {} heads, width {}; expected at least 0, 1, 1", x.tokens, x.heads, x.width);
  if (x.heads > kMostHeads || x.tokens > kMostValues / x.heads / x.width)
    return Formatted("got {} tokens of {} heads of width {}, expected at most {} heads and 2^40 values", x.tokens,
                     x.heads, x.width, kMostHeads);
  if (x.data == nullptr && x.halves == nullptr && x.tokens > 0)
    return Formatted("got a null pointer for {} tokens", x.tokens);
  return "";
}

void CheckSinks(std::span<const float> sinks, int q_heads, const char* where) {
  if (!sinks.empty() && std::ssize(sinks) != q_heads)
    Fail("{}, sinks: got {}, expected one for each of {} query heads, or none", where, sinks.size(), q_heads);
  for (size_t head = 0; head < sinks.size(); ++head) {
    if (!(std::abs(sinks[head]) < kMostLogit) && sinks[head] != -std::numeric_limits<float>::infinity())
      Fail("{}, sinks: got {} of head {}, expected less than 2^30 in magnitude, or -infinity for no sink", where,
           sinks[head], head);
  }
}

void CheckSoftcap(float softcap, const char* where) {
  if (!(softcap >= 0) || !std::isfinite(softcap))
    Fail("{}, softcap: got {}, expected a finite number above 0, or 0 for none", where, softcap);
}

void FailLogit(int64_t query, int q_head) {
  Fail(
      "attention logits: got 2^30 or more in magnitude, or an overflow, of query {}, head {}, expected less; try "
      "smaller values of q, k or scale",
      query, q_head);
}

void CheckMemory(const AttentionProblem& problem) {
  CheckApart("q", problem.q, problem.out);
  CheckApart("k", problem.k, problem.out);
  CheckApart("v", problem.v, problem.out);
  for (int64_t h = 0; h < std::ssize(problem.heads); ++h) {
    if (!problem.heads[static_cast<size_t>(h)].Differential()) continue;
    for (int64_t t = 0; t < problem.q.tokens; ++t) {
      if (const float lambda = problem.lambda.At(t, h); !std::isfinite(lambda))
        Fail("attention, lambda: got {} at token {}, output head {}, expected a finite number", lambda, t, h);
    }
  }
}

void CheckProblem(const AttentionProblem& problem) {
  CheckView("q", problem.q);
  CheckView("k", problem.k);
  CheckView("v", problem.v);
  CheckView("out", ReadOnly(problem.out));
  if (problem.q.width != problem.k.width)
    Fail("attention: got q of width {} and k of width {}, expected the same", problem.q.width, problem.k.width);
  if (problem.k.tokens != problem.v.tokens)
    Fail("attention: got {} tokens of k and {} of v, expected the same", problem.k.tokens, problem.v.tokens);
  if (problem.q.tokens != problem.out.tokens)
    Fail("attention: got {} tokens of q and {} of out, expected the same", problem.q.tokens, problem.out.tokens);
  if (problem.heads.size() != static_cast<size_t>(problem.out.heads))
    Fail("attention: got a table of {} heads and an output of {}, expected the same", problem.heads.size(),
         problem.out.heads);
  CheckSinks(problem.sinks, problem.q.heads, "attention");
  CheckSoftcap(problem.softcap, "attention");
  CheckLse(problem);
  CheckVariant(problem);
  if (!problem.sinks.empty() || problem.lse.data != nullptr) CheckSoftmax("attention with sinks or lse", problem);
  if (!std::isfinite(problem.scale))
    Fail("attention scale: got {}, expected a finite number; try 1 / sqrt({})", problem.scale, problem.q.width);
  const Mask& mask = problem.mask;
  CheckRange("attention mask", "kind", static_cast<int64_t>(mask.kind), 0, static_cast<int64_t>(Mask::Kind::kWindow));
  if (mask.kind == Mask::Kind::kWindow && mask.window < 1)
    Fail("attention window: got {}, expected at least 1", mask.window);
  constexpr int64_t kMostShift = int64_t{1} << 61;
  CheckRange("attention mask", "a shift of", mask.shift, -kMostShift, kMostShift);
  for (size_t row = 0; row < problem.heads.size(); ++row) CheckTableRow(problem, row);
}

void CheckRow(const char* name, const FloatHeads<const float>& x, int64_t token, int head) {
  for (int i = 0; i < x.width; ++i) {
    if (const float value = x.At(token, head, i); !std::isfinite(value))
      Fail("attention {}: got {} at token {}, head {}, channel {}, expected finite values", name, value, token, head,
           i);
  }
}

void CheckFinite(const AttentionProblem& problem) {
  CheckValues("q", problem.q);
  CheckValues("k", problem.k);
  CheckValues("v", problem.v);
}

std::string_view VariantName(RowWeights weights, Integral integral) {
  const auto is = [&](const Variant& v) { return v.weights == weights && v.integral == integral; };
  const Variant* const found = FindWhere(kVariants, is);
  TARE_CHECK(found != nullptr);
  return found->name;
}

void CheckSoftmax(std::string_view where, const AttentionProblem& problem) {
  if (const std::string_view name = VariantName(problem.weights, problem.integral); name != kVariants[0].name)
    Fail("{}: got {}, expected {}", where, name, kVariants[0].name);
}

void CheckF32(const char* where, const AttentionProblem& problem) {
  if (problem.HasHalves()) Fail("{}: got 16-bit floats, expected float32; try converting them", where);
}

AttentionProblem PartOf(const AttentionProblem& problem, KeyRange queries, KeyRange keys) {
  const auto check = [](const KeyRange& range, int64_t tokens, const char* of) {
    if (range.begin < 0 || range.begin > range.end || range.end > tokens)
      Fail("attention: got a part from {} {} to {}, expected one of {}", of, range.begin, range.end, tokens);
  };
  check(queries, problem.q.tokens, "query"), check(keys, problem.k.tokens, "key");
  AttentionProblem part = problem;
  const auto cut = [](auto& view, const KeyRange& range) {
    if (view.data != nullptr) view.data += range.begin * view.token_stride;
    view.tokens = range.end - range.begin;
  };
  const auto cut_floats = [&](auto& view, const KeyRange& range) {
    if (view.halves != nullptr) view.halves += range.begin * view.token_stride;
    cut(view, range);
  };
  cut_floats(part.q, queries), cut_floats(part.out, queries), cut_floats(part.k, keys), cut_floats(part.v, keys);
  cut(part.lse, queries);
  if (part.lambda.data != nullptr) part.lambda.data += queries.begin * part.lambda.token_stride;
  return part;
}

void WriteLse(const AttentionProblem& problem, int64_t t, int64_t head, int map, double lse) {
  if (problem.lse.data == nullptr) return;
  const KeyRange keys = problem.Keys(t);
  problem.lse.Row(t, static_cast<int>(head))[map] =
      keys.begin < keys.end ? static_cast<float>(lse) : problem.Sink(problem.heads[static_cast<size_t>(head)].Q(map));
}

void CheckWidths(const AttentionProblem& problem) {
  for (const int width : {problem.q.width, problem.v.width}) {
    if (width > kLargestWidth) Fail("attention: got heads of width {}, expected at most {}", width, kLargestWidth);
  }
}

int64_t CountPairs(const AttentionProblem& problem) {
  int64_t pairs = 0;
  for (int64_t t = 0; t < problem.q.tokens; ++t) {
    const KeyRange keys = problem.Keys(t);
    pairs += keys.end - keys.begin;
  }
  return pairs * static_cast<int64_t>(problem.heads.size());
}

std::vector<OutputHead> StandardHeads(int heads, int kv) {
  return GroupedBy(heads, kv, "standard", [](int h, int v) { return OutputHead{.q1 = h, .k1 = v, .v = {v, kNoMap}}; });
}

std::vector<OutputHead> HalvesHeads(int heads, int kv) {
  return GroupedBy(heads, kv, "halves", [=](int h, int v) {
    return OutputHead{.q1 = h, .k1 = v, .q2 = heads + h, .k2 = kv + v, .v = {v, kNoMap}};
  });
}

std::vector<OutputHead> V1Heads(int heads, int kv) {
  return GroupedBy(heads, kv, "V1", [](int h, int v) {
    return OutputHead{.q1 = 2 * h, .k1 = 2 * v, .q2 = 2 * h + 1, .k2 = 2 * v + 1, .v = {v, kNoMap}};
  });
}

std::vector<OutputHead> V2Heads(int heads, int kv) {
  return GroupedBy(heads, kv, "V2", [](int h, int v) {
    return OutputHead{.q1 = 2 * h, .k1 = v, .q2 = 2 * h + 1, .k2 = v, .v = {v, kNoMap}};
  });
}

// V = cat(chunk(repeat_kv(v), 2, heads), width): row j has the repeated heads j and j + q_heads/2.
std::vector<OutputHead> DiffLlamaHeads(int q_heads, int kv) {
  CheckHeads(q_heads, kv, "diffllama");
  if (q_heads % 2 != 0) Fail("diffllama heads: got {}, expected an even number", q_heads);
  const int half = q_heads / 2, group = q_heads / kv;
  std::vector<OutputHead> table;
  for (int h = 0; h < half; ++h) {
    const int first = h / group, second = (h + half) / group;
    table.push_back({.q1 = h, .k1 = first, .q2 = h + half, .k2 = second, .v = {first, second}});
  }
  return table;
}

std::vector<OutputHead> GroupedHeads(int q_heads, int noise, int kv) {
  if (noise < 1 || noise > q_heads / 2 || q_heads % noise != 0)
    Fail("grouped heads: got {} in {} groups, expected a multiple, two a group or more", q_heads, noise);
  const int pairs = kv / 2, size = q_heads / noise;
  if (pairs < 1 || kv % 2 != 0 || noise % pairs != 0)
    Fail("grouped heads: got {} key/value heads for {} groups, expected an even number, its half a divisor", kv, noise);
  std::vector<OutputHead> table;
  for (int q = 0; q < q_heads; ++q) {
    const int group = q / size, last = group * size + size - 1, k = group / (noise / pairs) * 2;
    if (q != last) table.push_back({.q1 = q, .k1 = k, .q2 = last, .k2 = k + 1, .v = {k, k + 1}});
  }
  return table;
}

}  // namespace tare
