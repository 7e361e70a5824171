// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/decode_bench.h"

#include <algorithm>
#include <random>

#include "quant/base/integers.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr int64_t kPoolStarts = int64_t{1} << 20;
constexpr int64_t kAppended = 1024;  // tokens at once

const DecodeShape& Checked(const DecodeShape& s) {
  if (s.n < 1 || s.d < 1 || s.heads < 1 || s.batch < 1)
    Fail("bench decode: got n {}, d {}, heads {}, batch {}; expected at least 1 of each", s.n, s.d, s.heads, s.batch);
  return s;
}

// A head's rows of a part, one after the other.
void CopyHead(const HeadsView<const float>& x, int head, float* out) {
  for (int64_t t = 0; t < x.tokens; ++t) std::copy_n(x.Row(t, head), x.width, out + t * x.width);
}

}  // namespace

DecodeInputs::DecodeInputs(const DecodeShape& shape, uint64_t seed)
    : shape_(Checked(shape)),
      heads_("bench decode", shape.family, shape.heads, shape.kv_heads, shape.d),
      table_(heads_.table, heads_.q,
             {.k_heads = heads_.k, .k_width = shape.d, .v_heads = heads_.v, .v_width = heads_.v_width},
             1.0f / std::sqrt(static_cast<float>(shape.d))) {
  const CacheShape& c = table_.shape();
  const int64_t longest = std::max(
      {kAppended * c.k_heads * c.k_width, kAppended * c.v_heads * c.v_width, int64_t{table_.q_heads()} * c.k_width});
  pool_.resize(static_cast<size_t>(kPoolStarts + longest));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (float& x : pool_) x = normal(random);
}

HeadsView<const float> DecodeInputs::Query(int sequence) const {
  return DenseHeads(pool_.data() + 17 * (sequence + 1), 1, table_.q_heads(), shape_.d);
}

// Each part begins elsewhere in the pool: the step has no factor in common with the pool's length.
DecodeInputs::Tokens DecodeInputs::Part(int sequence, int64_t part) const {
  const int64_t number = sequence * CeilDiv(shape_.n, kAppended) + part;
  const int64_t tokens = std::min<int64_t>(kAppended, shape_.n - part * kAppended);
  const float* k = pool_.data() + (number * 40503 + 12345) % kPoolStarts;
  const float* v = pool_.data() + (number * 50021 + 54321) % kPoolStarts;
  const CacheShape& c = table_.shape();
  return {DenseHeads(k, tokens, c.k_heads, c.k_width), DenseHeads(v, tokens, c.v_heads, c.v_width)};
}

KvCache DecodeInputs::Cache(const CacheRules& rules, int sequence) const {
  KvCache cache(table_.shape(), rules);
  for (int64_t part = 0; part * kAppended < shape_.n; ++part) {
    const Tokens tokens = Part(sequence, part);
    cache.Append(tokens.k, tokens.v);
  }
  return cache;
}

DecodeInputs::Dense DecodeInputs::AllTokens(int sequence) const {
  const CacheShape& c = table_.shape();
  Dense dense;
  dense.k.reserve(static_cast<size_t>(shape_.n * c.k_heads * c.k_width));
  dense.v.reserve(static_cast<size_t>(shape_.n * c.v_heads * c.v_width));
  for (int64_t part = 0; part * kAppended < shape_.n; ++part) {
    const Tokens tokens = Part(sequence, part);
    dense.k.insert(dense.k.end(), tokens.k.data, tokens.k.data + tokens.k.tokens * tokens.k.token_stride);
    dense.v.insert(dense.v.end(), tokens.v.data, tokens.v.data + tokens.v.tokens * tokens.v.token_stride);
  }
  return dense;
}

std::vector<double> DecodeInputs::Exact(int sequence, int head) const {
  const OutputHead& h = heads_.table[head];
  const int64_t n = shape_.n;
  const int d = shape_.d, width = table_.shape().v_width;
  std::vector<float> k(static_cast<size_t>(2 * n * d)), v(static_cast<size_t>(n * width)),
      unused(v.begin(), v.begin() + width);
  for (int64_t part = 0; part * kAppended < n; ++part) {
    const Tokens tokens = Part(sequence, part);
    const int64_t at = part * kAppended;
    for (int map = 0; map < h.Maps(); ++map) CopyHead(tokens.k, h.K(map), k.data() + (map * n + at) * d);
    CopyHead(tokens.v, h.v[0], v.data() + at * width);
  }
  OutputHead alone = h;
  alone.k1 = 0, alone.k2 = 1, alone.v = {0, kNoMap};
  return ReferenceAttentionDouble({.q = Query(sequence),
                                   .k = {k.data(), n, 2, d, d, n * d},
                                   .v = DenseHeads<const float>(v.data(), n, 1, width),
                                   .heads = {&alone, 1},
                                   .lambda = {&lambda_, 0, 0},
                                   .mask = {.kind = Mask::Kind::kFull},
                                   .scale = table_.scale(),
                                   .out = DenseHeads(unused.data(), 1, 1, width)});
}

}  // namespace tare
