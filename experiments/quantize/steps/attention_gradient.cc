// SPDX-License-Identifier: Apache-2.0
// The gradient of attention (kernels/attention/heads.h) by its queries, keys, values and lambdas. For an output head
// with G = dO V^T and maps P1, P2 (recomputed, nothing of [T, T] is kept):
//
//   dV = (P1 - lambda P2)^T dO      dP1 = G, dP2 = -lambda G       dlambda = -sum over keys of P2 * G
//   dS = P * (dP - sum over keys of P * dP)       dQ = s dS K,  dK = s dS^T Q
//
// A sink, a key without a value, is only in P's sums. As in FlashAttention's backward (arXiv 2205.14135, B.2), by map.
#include "experiments/quantize/steps/autoround.h"

#include <algorithm>
#include <array>
#include <memory>

#include "kernels/elementwise/rows.h"
#include "kernels/product/tile_product.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kTile = 64;  // queries and keys of a block

int64_t Blocks(int64_t n) { return (n + kTile - 1) / kTile; }

// The products of one block of queries with one of keys; `wide` is the total width of V's slices.
struct TileProducts {
  TileProducts(int d, int wide, int64_t keys)
      : logits(Shape(kTile, kTile, d, d, kTile, keys, ProductStore::kOverwrite)),
        values(Shape(kTile, kTile, wide, wide, kTile, keys, ProductStore::kOverwrite)),
        to_query(Shape(kTile, d, kTile, keys, d, d, ProductStore::kAdd)),
        to_key(Shape(kTile, d, kTile, kTile, d, d, ProductStore::kAdd)),
        to_value(Shape(kTile, wide, kTile, kTile, wide, wide, ProductStore::kAdd)) {}

  static ProductShape Shape(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc, ProductStore s) {
    return {ProductTypes::kF32, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), lda, ldb, ldc, s};
  }

  TileProduct logits, values;    // Q K^T, dO V^T
  TileProduct to_query;          // += dS K
  TileProduct to_key, to_value;  // += dS^T Q, P^T dO
};

// One thread's buffers: of a head, N its keys up to a whole tile.
struct Buffers {
  Buffers(int d, int wide, int64_t n) : stride(n + 16) {
    for (int m = 0; m < 2; ++m) {
      keys[m].Reset(static_cast<size_t>(n * d));
      keys_t[m].Reset(static_cast<size_t>(n * d));
      d_keys[m].Reset(static_cast<size_t>(n * d));
      queries[m].Reset(static_cast<size_t>(kTile * d));
      probs[m].Reset(static_cast<size_t>(kTile * stride));
    }
    d_query.Reset(static_cast<size_t>(kTile * d));
    d_out.Reset(static_cast<size_t>(kTile * wide));
    values_t.Reset(static_cast<size_t>(n * wide));
    d_values.Reset(static_cast<size_t>(n * wide));
    g.Reset(static_cast<size_t>(kTile * stride));
    turned.Reset(static_cast<size_t>(kTile * kTile));
  }

  int64_t stride;                                // of probs and g, no power of two
  std::array<AlignedBuffer<float>, 2> keys;      // by map: [N][d]
  std::array<AlignedBuffer<float>, 2> keys_t;    // [N / 64][d][64]
  std::array<AlignedBuffer<float>, 2> d_keys;    // [N][d]
  std::array<AlignedBuffer<float>, 2> queries;   // [64][d], scaled
  std::array<AlignedBuffer<float>, 2> probs;     // [64][stride], then dS
  AlignedBuffer<float> d_query, d_out;           // [64][d], [64][wide]
  AlignedBuffer<float> values_t, d_values;       // [N / 64][wide][64], [N][wide]
  AlignedBuffer<float> g;                        // [64][stride]
  AlignedBuffer<float> turned;                   // [64 keys][64 queries]
  std::array<std::array<float, kTile>, 2> sums;  // by map: of P * G
};

bool Share(const OutputHead& a, const OutputHead& b) {
  const auto common = [](const std::array<int, 2>& x, const std::array<int, 2>& y) {
    return std::ranges::any_of(x, [&](int head) { return head != kNoMap && std::ranges::contains(y, head); });
  };
  return common({a.q1, a.q2}, {b.q1, b.q2}) || common({a.k1, a.k2}, {b.k1, b.k2}) || common(a.v, b.v);
}

void Clear(const AttentionGradients& to, const AttentionSequence& s) {
  for (const HeadsView<float>& view : {to.q, to.k, to.v}) {
    for (int64_t row = s.first_row; row < s.first_row + s.prefix; ++row) {
      for (int head = 0; head < view.heads; ++head) std::fill_n(view.Row(row, head), view.width, 0.0f);
    }
  }
}

// One sequence, of whose output heads one is gone through after another.
class SequenceGradient {
 public:
  SequenceGradient(const AttentionProblem& problem, const AttentionGradients& to, const TileProducts& products,
                   Buffers& b, const AttentionSequence& s)
      : p_(problem), to_(to), products_(products), b_(b), first_(s.first_row), tokens_(s.prefix) {}

  void Add(std::span<const int> heads) {
    for (const int head : heads) Head(head);
  }

 private:
  void Head(int head) {
    const OutputHead& row = p_.heads[static_cast<size_t>(head)];
    PackKeys(row);
    for (int64_t block = 0; block < Blocks(tokens_); ++block) {
      ThrowIfStopped();
      QueryBlock(head, row, block * kTile);
    }
    for (int64_t t = 0; t < tokens_; ++t) {
      for (int m = 0; m < row.Maps(); ++m)
        AddTo(to_.k.Row(first_ + t, row.K(m)), b_.d_keys[m].data() + t * p_.k.width, p_.k.width);
      for (int slice = 0; slice < row.VSlices(); ++slice)
        AddTo(to_.v.Row(first_ + t, row.v[slice]), b_.d_values.data() + t * Wide(row) + slice * p_.v.width, p_.v.width);
    }
  }

  int64_t Wide(const OutputHead& row) const { return int64_t{row.VSlices()} * p_.v.width; }

  void PackKeys(const OutputHead& row) {
    const int64_t d = p_.k.width, wide = Wide(row), n = Blocks(tokens_) * kTile;
    for (int m = 0; m < row.Maps(); ++m) {
      std::fill_n(b_.d_keys[m].data(), n * d, 0.0f);
      std::fill_n(b_.keys[m].data(), n * d, 0.0f);
      std::fill_n(b_.keys_t[m].data(), n * d, 0.0f);
      for (int64_t t = 0; t < tokens_; ++t) {
        const float* const key = p_.k.Row(first_ + t, row.K(m));
        std::copy_n(key, d, b_.keys[m].data() + t * d);
        Turn(key, d, t, b_.keys_t[m].data());
      }
    }
    std::fill_n(b_.d_values.data(), n * wide, 0.0f);
    std::fill_n(b_.values_t.data(), n * wide, 0.0f);
    for (int64_t t = 0; t < tokens_; ++t) {
      for (int slice = 0; slice < row.VSlices(); ++slice)
        Turn(p_.v.Row(first_ + t, row.v[slice]), wide, t, b_.values_t.data() + slice * p_.v.width * kTile, p_.v.width);
    }
  }

  // A row to column t of blocks [width][64]: of all `width` values, or of `count`, from the block's first row on.
  static void Turn(const float* row, int64_t width, int64_t t, float* blocks, int64_t count = -1) {
    float* const column = blocks + t / kTile * width * kTile + t % kTile;
    for (int64_t i = 0; i < (count < 0 ? width : count); ++i) column[i * kTile] = row[i];
  }

  // Queries from `first` on, and every key that one of them sees.
  void QueryBlock(int head, const OutputHead& row, int64_t first) {
    const int64_t rows = std::min(kTile, tokens_ - first), d = p_.q.width, wide = Wide(row);
    const int64_t begin = Keys(first).begin / kTile * kTile, end = Blocks(Keys(first + rows - 1).end) * kTile;
    std::fill_n(b_.d_out.data(), kTile * wide, 0.0f);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(to_.out.Row(first_ + first + r, head), wide, b_.d_out.data() + r * wide);
    for (int64_t key = begin; key < end; key += kTile)
      products_.values.Run(b_.d_out.data(), b_.values_t.data() + key * wide, b_.g.data() + key);
    for (int m = 0; m < row.Maps(); ++m) {
      std::fill_n(b_.queries[m].data(), kTile * d, 0.0f);
      for (int64_t r = 0; r < rows; ++r)
        ScaleInto(p_.q.Row(first_ + first + r, row.Q(m)), p_.scale, d, b_.queries[m].data() + r * d);
      for (int64_t key = begin; key < end; key += kTile)
        products_.logits.Run(b_.queries[m].data(), b_.keys_t[m].data() + key * d, b_.probs[m].data() + key);
      Probabilities(m, row, first, rows, begin, end);
    }
    if (row.Differential() && to_.lambda != nullptr) {
      for (int64_t r = 0; r < rows; ++r)
        to_.lambda[(first_ + first + r) * std::ssize(p_.heads) + head] = -b_.sums[1][static_cast<size_t>(r)];
    }
    AddValues(head, row, first, rows, begin, end);
    for (int m = 0; m < row.Maps(); ++m) AddMap(m, head, row, first, rows, begin, end);
  }

  KeyRange Keys(int64_t query) const { return p_.mask.Keys(query, tokens_, tokens_); }

  // Logits become probabilities, and the sums of P * G are taken; 0 where a query does not see a key.
  void Probabilities(int m, const OutputHead& row, int64_t first, int64_t rows, int64_t begin, int64_t end) {
    for (int64_t r = 0; r < kTile; ++r) {
      float* const p = b_.probs[m].data() + r * b_.stride;
      const KeyRange seen = r < rows ? Keys(first + r) : KeyRange{begin, begin};
      if (seen.begin < seen.end) SoftmaxWithSink(p + seen.begin, p_.Sink(row.Q(m)), seen.end - seen.begin);
      std::fill(p + begin, p + seen.begin, 0.0f);
      std::fill(p + seen.end, p + end, 0.0f);
      const float* const g = b_.g.data() + r * b_.stride;
      double sum = 0;
      for (int64_t key = seen.begin; key < seen.end; ++key) sum += double{p[key]} * double{g[key]};
      b_.sums[m][static_cast<size_t>(r)] = static_cast<float>(sum);
    }
  }

  float Lambda(int head, int64_t query) const { return p_.lambda.At(first_ + query, head); }

  // dV += (P1 - lambda P2)^T dO
  void AddValues(int head, const OutputHead& row, int64_t first, int64_t rows, int64_t begin, int64_t end) {
    const int64_t wide = Wide(row);
    for (int64_t key = begin; key < end; key += kTile) {
      for (int64_t r = 0; r < kTile; ++r) {
        const float* const p1 = b_.probs[0].data() + r * b_.stride + key;
        const float* const p2 = b_.probs[1].data() + r * b_.stride + key;
        const float lambda = row.Differential() && r < rows ? Lambda(head, first + r) : 0;
        for (int64_t k = 0; k < kTile; ++k) b_.turned[k * kTile + r] = lambda == 0 ? p1[k] : p1[k] - lambda * p2[k];
      }
      products_.to_value.Run(b_.turned.data(), b_.d_out.data(), b_.d_values.data() + key * wide);
    }
  }

  // dQ += s dS K, dK += dS^T (s Q) of one map
  void AddMap(int m, int head, const OutputHead& row, int64_t first, int64_t rows, int64_t begin, int64_t end) {
    const int64_t d = p_.q.width;
    for (int64_t r = 0; r < rows; ++r) {
      float* const p = b_.probs[m].data() + r * b_.stride;
      const float* const g = b_.g.data() + r * b_.stride;
      const float sum = b_.sums[m][static_cast<size_t>(r)], factor = m == 0 ? 1.0f : -Lambda(head, first + r);
      for (int64_t key = begin; key < end; ++key) p[key] *= (g[key] - sum) * factor;
    }
    std::fill_n(b_.d_query.data(), kTile * d, 0.0f);
    for (int64_t key = begin; key < end; key += kTile) {
      const float* const ds = b_.probs[m].data() + key;
      products_.to_query.Run(ds, b_.keys[m].data() + key * d, b_.d_query.data());
      for (int64_t r = 0; r < kTile; ++r) {
        for (int64_t k = 0; k < kTile; ++k) b_.turned[k * kTile + r] = ds[r * b_.stride + k];
      }
      products_.to_key.Run(b_.turned.data(), b_.queries[m].data(), b_.d_keys[m].data() + key * d);
    }
    for (int64_t r = 0; r < rows; ++r) {
      float* const from = b_.d_query.data() + r * d;
      ScaleInto(from, p_.scale, d, from);
      AddTo(to_.q.Row(first_ + first + r, row.Q(m)), from, d);
    }
  }

  const AttentionProblem& p_;
  const AttentionGradients& to_;
  const TileProducts& products_;
  Buffers& b_;
  const int64_t first_, tokens_;
};

}  // namespace

std::vector<std::vector<int>> GroupsThatShare(std::span<const OutputHead> heads) {
  std::vector<std::vector<int>> groups;
  for (int head = 0; head < std::ssize(heads); ++head) {
    std::vector<int> joined;
    std::erase_if(groups, [&](const std::vector<int>& group) {
      const bool shares = std::ranges::any_of(
          group, [&](int other) { return Share(heads[static_cast<size_t>(head)], heads[static_cast<size_t>(other)]); });
      if (shares) joined.insert(joined.end(), group.begin(), group.end());
      return shares;
    });
    joined.push_back(head);
    groups.push_back(std::move(joined));
  }
  return groups;
}

void AttentionGradient(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                       const AttentionGradients& gradients) {
  CheckProblem(problem);
  CheckSoftmax("gradient of attention", problem);
  TARE_CHECK(problem.mask.shift == 0);
  int64_t longest = 1;
  for (const AttentionSequence& s : sequences) {
    TARE_CHECK(s.branches.empty() && s.past == 0 && s.prefix > 0 && s.first_row >= 0 &&
               s.first_row + s.prefix <= problem.q.tokens);
    longest = std::max(longest, s.prefix);
  }
  ParallelFor(sequences.size(), [&](size_t i, int) { Clear(gradients, sequences[i]); });
  const int d = problem.q.width, wide = problem.out.width;
  const int64_t keys = Blocks(longest) * kTile;
  const TileProducts products(d, wide, keys + 16);
  std::vector<std::unique_ptr<Buffers>> buffers(static_cast<size_t>(Threads()));
  const std::vector<std::vector<int>> groups = GroupsThatShare(problem.heads);
  ParallelFor(sequences.size() * groups.size(), [&](size_t i, int thread) {
    std::unique_ptr<Buffers>& own = buffers[static_cast<size_t>(thread)];
    if (!own) own = std::make_unique<Buffers>(d, wide, keys);
    SequenceGradient(problem, gradients, products, *own, sequences[i / groups.size()]).Add(groups[i % groups.size()]);
  });
}

}  // namespace tare
