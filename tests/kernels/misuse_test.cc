// SPDX-License-Identifier: Apache-2.0
// What a caller does wrong at a public entry of the kernels is an Error, or gives what the reference gives: no signal,
// no abort, and no number where the reference has none.
#include <gtest/gtest.h>

#include <bit>
#include <climits>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/integer/executed_attention.h"
#include "kernels/decode/decode_attention.h"
#include "kernels/linear/one_token.h"
#include "kernels/linear/projector.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/random_attention.h"
#include "tests/support/whole_references.h"

namespace tare::misuse_test {
namespace {

using Order = AttentionPlan::Order;

constexpr int64_t kHuge = int64_t{1} << 62;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
const float kNanWithLowBits = std::bit_cast<float>(0x7fc00001u);

void ExpectErrors(const std::vector<std::pair<std::string, Call>>& calls) {
  for (const auto& [name, call] : calls) EXPECT_THROW(call(), Error) << name;
}

// A call with something changed.
struct Attention : RandomAttention {
  Attention() : RandomAttention({}) {}

  void Fused(ProductTypes types) {
    workspace.Reset(FusedWorkspaceBytes(problem, types));
    FusedAttention(problem, workspace.span(), types);
  }
  void Executed() {
    workspace.Reset(WorkspaceBytes(plan, problem));
    ExecutedAttention(plan, problem, workspace.span());
  }
  void Fill(std::vector<float>& x, float factor) {
    for (float& value : x) value *= factor;
  }

  AttentionPlan plan;
  std::vector<float> sinks, mean;
  AlignedBuffer<std::byte> workspace;
};

struct Kernel {
  std::string name;
  double error;  // of the row, beside ||P1 V|| + lambda ||P2 V||
  std::function<void(Attention&)> run;
};

const std::vector<Kernel>& Kernels() {
  static const std::vector<Kernel> kernels = {
      {"f32", 1e-3, [](Attention& a) { a.Fused(ProductTypes::kF32); }},
      {"bf16", 0.1, [](Attention& a) { a.Fused(ProductTypes::kBf16); }},
      {"late", 0.1, [](Attention& a) { a.Executed(); }},
      {"early", 0.1,
       [](Attention& a) {
         a.plan.order = Order::kEarly, a.plan.probs = Format::kInt8;
         a.Executed();
       }},
      {"coded logits", 0.2,
       [](Attention& a) {
         a.plan.logits = Format::kInt8;
         a.Executed();
       }},
      {"mean of q", 0.1,
       [](Attention& a) {
         a.mean.assign(4 * 16, 0.25f), a.plan.q_mean = a.mean.data();
         a.Executed();
       }},
  };
  return kernels;
}

// Whether the kernel gives what the reference gives, where it does not refuse.
void ExpectTruthOrError(const std::string& change, const Kernel& kernel, Attention& a) {
  try {
    kernel.run(a);
  } catch (const Error&) {
    return;
  }
  const std::vector<double> want = ReferenceAttentionDouble(a.problem), sizes = ReferenceMagnitudes(a.problem);
  const auto width = static_cast<size_t>(a.problem.out.width);
  for (size_t row = 0; row < sizes.size(); ++row) {
    double error = 0;
    bool same = true;  // not finite where the reference is not
    for (size_t i = row * width; i < (row + 1) * width; ++i) {
      if (std::isfinite(want[i]) && std::isfinite(a.out[i]))
        error += (a.out[i] - want[i]) * (a.out[i] - want[i]);
      else
        same = same && !std::isfinite(a.out[i]);
    }
    ASSERT_TRUE(same) << change << ", " << kernel.name << ", row " << row;
    ASSERT_LE(std::sqrt(error), kernel.error * sizes[row] + 1e-6) << change << ", " << kernel.name << ", row " << row;
  }
}

float& At(const HeadsView<const float>& x, int64_t token, int head, int channel) {
  return const_cast<float*>(x.Row(token, head))[channel];
}

TEST(Misuse, AttentionIsRightOrRefused) {
  const std::vector<std::pair<std::string, std::function<void(Attention&)>>> changes = {
      {"nothing", [](Attention&) {}},
      {"a NaN query", [](Attention& a) { At(a.problem.q, 10, 1, 3) = kNan; }},
      {"a NaN query with low bits", [](Attention& a) { At(a.problem.q, 10, 1, 3) = kNanWithLowBits; }},
      {"a NaN key", [](Attention& a) { At(a.problem.k, 5, 0, 3) = kNan; }},
      {"a NaN key with low bits", [](Attention& a) { At(a.problem.k, 5, 0, 3) = kNanWithLowBits; }},
      {"the last key is NaN", [](Attention& a) { At(a.problem.k, 69, 1, 15) = kNan; }},
      {"a NaN value", [](Attention& a) { At(a.problem.v, 5, 0, 3) = kNan; }},
      {"an infinite query", [](Attention& a) { At(a.problem.q, 10, 1, 3) = -kInf; }},
      {"an infinite key", [](Attention& a) { At(a.problem.k, 69, 1, 3) = kInf; }},
      {"an infinite value", [](Attention& a) { At(a.problem.v, 5, 0, 3) = -kInf; }},
      {"a NaN lambda", [](Attention& a) { a.lambda[7] = kNan; }},
      {"an infinite lambda", [](Attention& a) { a.lambda[7] = kInf; }},
      {"q x 1e9", [](Attention& a) { a.Fill(a.q, 1e9f); }},
      {"q x 1e12", [](Attention& a) { a.Fill(a.q, 1e12f); }},
      {"q x 1e20", [](Attention& a) { a.Fill(a.q, 1e20f); }},
      {"q x 3e37", [](Attention& a) { a.Fill(a.q, 3e37f); }},
      {"k x 3e37", [](Attention& a) { a.Fill(a.k, 3e37f); }},
      {"q and k x 1e18", [](Attention& a) { a.Fill(a.q, 1e18f), a.Fill(a.k, 1e18f); }},
      {"q and k x 1e25", [](Attention& a) { a.Fill(a.q, 1e25f), a.Fill(a.k, 1e25f); }},
      {"all keys far below, past f32",
       [](Attention& a) {
         std::ranges::fill(a.q, 1e20f);
         std::ranges::fill(a.k, -1e20f);
       }},
      {"a sink of 1e20", [](Attention& a) { a.sinks.assign(4, 1e20f), a.problem.sinks = a.sinks; }},
      {"a NaN sink", [](Attention& a) { a.sinks.assign(4, kNan), a.problem.sinks = a.sinks; }},
      {"scale x 1e30", [](Attention& a) { a.problem.scale *= 1e30f; }},
      {"scale 3e38 of no q", [](Attention& a) { a.Fill(a.q, 0), a.problem.scale = 3e38f; }},
      {"scale NaN", [](Attention& a) { a.problem.scale = kNan; }},
      {"a window of all", [](Attention& a) { a.problem.mask = {Mask::Kind::kWindow, INT64_MAX}; }},
      {"a shift of all", [](Attention& a) { a.problem.mask.shift = INT64_MAX; }},
      {"a shift of none", [](Attention& a) { a.problem.mask.shift = INT64_MIN; }},
      {"no keys", [](Attention& a) { a.problem.k.tokens = a.problem.v.tokens = 0; }},
      {"more queries than keys", [](Attention& a) { a.problem.k.tokens = a.problem.v.tokens = 3; }},
  };
  for (const auto& [name, change] : changes) {
    for (const Kernel& kernel : Kernels()) {
      Attention a;
      change(a);
      ExpectTruthOrError(name, kernel, a);
    }
  }
}

TEST(Misuse, AttentionRefusesSizesPointersAndFormats) {
  const std::vector<std::pair<std::string, std::function<void(Attention&)>>> changes = {
      {"q null", [](Attention& a) { a.problem.q.data = nullptr; }},
      {"out null", [](Attention& a) { a.problem.out.data = nullptr; }},
      {"lambda null", [](Attention& a) { a.problem.lambda.data = nullptr; }},
      {"-1 queries", [](Attention& a) { a.problem.q.tokens = a.problem.out.tokens = -1; }},
      {"2^62 queries", [](Attention& a) { a.problem.q.tokens = a.problem.out.tokens = kHuge; }},
      {"2^62 keys", [](Attention& a) { a.problem.k.tokens = a.problem.v.tokens = kHuge; }},
      {"2^31 heads", [](Attention& a) { a.problem.k.heads = INT_MAX; }},
      {"2^31 wide", [](Attention& a) { a.problem.q.width = a.problem.k.width = INT_MAX; }},
      {"two slices of 2^31",
       [](Attention& a) {
         a.problem.v.width = INT_MAX;
         for (OutputHead& head : a.heads) head.v = {0, 0};
       }},
      {"no such mask", [](Attention& a) { a.problem.mask.kind = static_cast<Mask::Kind>(9); }},
      {"no such head", [](Attention& a) { a.heads[1].k2 = -7; }},
  };
  for (const auto& [name, change] : changes) {
    for (const Kernel& kernel : Kernels()) {
      Attention a;
      change(a);
      EXPECT_THROW(kernel.run(a), Error) << name << ", " << kernel.name;
    }
    Attention a;
    change(a);
    if (a.problem.q.width < INT_MAX) {  // it takes any width
      EXPECT_THROW(ReferenceAttention(a.problem), Error) << name;
    }
    EXPECT_THROW(QuantizedReference(a.plan, a.problem), Error) << name;
  }
  for (const CodeRange range : {CodeRange::kFull, CodeRange::kZero, CodeRange::kMin}) {
    for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
      for (Format AttentionPlan::* place :
           {&AttentionPlan::q, &AttentionPlan::k, &AttentionPlan::v, &AttentionPlan::logits, &AttentionPlan::probs}) {
        for (const Order order : {Order::kLate, Order::kEarly}) {
          Attention a;
          if (order == Order::kEarly) a.plan.order = order, a.plan.probs = Format::kInt8;
          a.plan.*place = WithRange(format, range);
          EXPECT_THROW(a.Executed(), Error) << Name(a.plan.*place);
        }
      }
    }
  }
  float mean[64];
  const HeadsView<const float> none{};
  ExpectErrors({{"order",
                 [] {
                   Attention a;
                   a.plan.order = static_cast<Order>(7), a.Executed();
                 }},
                {"mean of nothing", [&] { MeanOfPrefix(none, mean); }},
                {"mean to nowhere", [&] { MeanOfPrefix(Attention().problem.q, nullptr); }}});
}

struct Decode {
  Decode() {
    cache.Append(DenseHeads<const float>(k.data(), 100, 4, 16), DenseHeads<const float>(v.data(), 100, 2, 32));
    s = {.cache = &cache,
         .q = DenseHeads<const float>(q.data(), 1, 4, 16),
         .lambda = {.data = &lambda},
         .out = DenseHeads(out.data(), 1, 2, 32)};
  }
  void Run() {
    workspace.Reset(DecodeWorkspaceBytes(heads, {&s, 1}));
    DecodeAttention(heads, {&s, 1}, workspace.span());
  }

  CacheShape shape{4, 16, 2, 32};
  KvCache cache{shape, {.k = {.format = Format::kInt4}, .v = {.format = Format::kInt4}}};
  std::vector<float> k = std::vector<float>(100 * 4 * 16, 0.1f), v = std::vector<float>(100 * 2 * 32, 0.1f),
                     q = std::vector<float>(4 * 16, 0.2f), out = std::vector<float>(2 * 32);
  float lambda = 0.5f;
  std::vector<OutputHead> table = V1Heads(2, 2);
  DecodeHeads heads{table, 4, shape, 0.25f};
  DecodeSequence s;
  AlignedBuffer<std::byte> workspace;
};

TEST(Misuse, DecodingIsRefused) {
  Decode right;
  right.Run();
  EXPECT_NEAR(right.out[0], 0.05f, 1e-4f);
  const std::vector<std::pair<std::string, std::function<void(Decode&)>>> changes = {
      {"cache null", [](Decode& d) { d.s.cache = nullptr; }},
      {"q null", [](Decode& d) { d.s.q.data = nullptr; }},
      {"lambda null", [](Decode& d) { d.s.lambda.data = nullptr; }},
      {"lambda NaN", [](Decode& d) { d.lambda = kNan; }},
      {"lambda infinite", [](Decode& d) { d.lambda = -kInf; }},
      {"q NaN", [](Decode& d) { d.q[3] = kNan; }},
      {"products overflow", [](Decode& d) { std::ranges::fill(d.q, 3e38f); }},
      {"newer", [](Decode& d) { d.s.newer = 101; }},
      {"-1 queries", [](Decode& d) { d.s.q.tokens = d.s.out.tokens = -1; }},
      {"moved from", [](Decode& d) { const KvCache taken = std::move(d.cache); }},
  };
  for (const auto& [name, change] : changes) {
    Decode a, b;
    change(a), change(b);
    EXPECT_THROW(a.Run(), Error) << name;
    std::vector<std::vector<float>> mass(2, std::vector<float>(100));
    EXPECT_THROW(AddKeyMass(KeyMass::kMaps, b.heads, b.s, mass), Error) << name;
  }
  Decode d;
  std::vector<std::vector<float>> few(1);
  const CacheShape none{-1, 16, 2, 32};
  ExpectErrors({{"out null",
                 [] {
                   Decode a;
                   a.s.out.data = nullptr, a.Run();
                 }},
                {"mass of other groups", [&] { AddKeyMass(KeyMass::kMaps, d.heads, d.s, few); }},
                {"heads of no shape", [&] { DecodeHeads(d.table, 4, none, 1); }},
                {"reference of no cache", [&] { ReferenceDecode(d.table[0], 0, 1, 0, {}); }}});
  // Keys that overflow beside queries, in the cache alone.
  Decode large;
  std::ranges::fill(large.k, 1e38f);
  large.cache.Truncate(0);
  large.cache.Append(DenseHeads<const float>(large.k.data(), 9, 4, 16),
                     DenseHeads<const float>(large.v.data(), 9, 2, 32));
  EXPECT_THROW(large.Run(), Error);
  large.cache.Truncate(0);
  large.Run();
}

TEST(Misuse, ACacheIsRefused) {
  Decode d;
  const auto append = [&](const float* k, const float* v, int64_t n, int64_t stride = 1) {
    d.cache.Append({k, n, 4, 16, stride * 64, 16}, {v, n, 2, 32, stride * 64, 32});
  };
  const auto keep = [&](const std::vector<int64_t>& k, const std::vector<int64_t>& v) {
    d.cache.Keep(std::vector<std::vector<int64_t>>(4, k), std::vector<std::vector<int64_t>>(2, v));
  };
  float row[32];
  ExpectErrors({
      {"null", [&] { append(nullptr, nullptr, 3); }},
      {"-1 tokens", [&] { append(d.k.data(), d.v.data(), -1); }},
      {"-100 tokens", [&] { append(d.k.data(), d.v.data(), -100); }},
      {"2^62 tokens", [&] { append(d.k.data(), d.v.data(), kHuge, 0); }},
      {"2^31 heads", [] { KvCache({INT_MAX, 16, 2, 32}, {}); }},
      {"key beyond", [&] { d.cache.ReadKey(100, 0, row); }},
      {"key before", [&] { d.cache.ReadKey(-1, 0, row); }},
      {"key of no head", [&] { d.cache.ReadKey(0, 4, row); }},
      {"key to nowhere", [&] { d.cache.ReadKey(0, 0, nullptr); }},
      {"value of no head", [&] { d.cache.ReadValue(0, -1, row); }},
      {"value to nowhere", [&] { d.cache.ReadValue(0, 0, nullptr); }},
      {"no such page", [&] { d.cache.Parts(2); }},
      {"kept twice", [&] { keep({1, 1}, {1, 2}); }},
      {"kept beyond", [&] { keep({1, 100}, {1, 2}); }},
      {"kept differently", [&] { keep({1, 2}, {1}); }},
      {"kept of no head", [&] { d.cache.Keep({}, {}); }},
  });
  EXPECT_EQ(d.cache.tokens(), 100);
  d.Run();
  EXPECT_NEAR(d.out[0], 0.05f, 1e-4f);
}

struct Linear {
  Linear() {
    for (int64_t r = 0; r < 64; ++r) RoundRowToNearest(&w[r * 128], ClipChoice::kAbsmax, codes, r);
  }
  std::vector<float> w = std::vector<float>(64 * 128, 0.1f), x = std::vector<float>(16 * 128, 0.2f),
                     y = std::vector<float>(64 * 64);
  QuantizedMatrixBuffer codes{Format::kInt4, 64, 128, 64};
};

TEST(Misuse, LinearLayersAreRefused) {
  Linear l;
  const PackedMatrix packed(l.codes.view());
  QuantizedMatrixBuffer half(Format::kInt4, 64, 64, 64);
  for (int64_t r = 0; r < 64; ++r) RoundRowToNearest(l.w.data(), ClipChoice::kAbsmax, half, r);
  const PackedMatrix other(half.view());
  float* const y = l.y.data();
  const auto both = [&](const float* x, int64_t rows, const std::vector<QuantizedProjection>& p) {
    EXPECT_THROW(QuantizedLinear().Project(x, rows, {}, p), Error);
    EXPECT_THROW(OneTokenProjector().Project(x, rows, p), Error);
  };
  both(l.x.data(), 2, {{nullptr, nullptr, y}});
  both(nullptr, 2, {{&packed, nullptr, y}});
  both(l.x.data(), 2, {{&packed, nullptr, nullptr}});
  both(l.x.data(), -1, {{&packed, nullptr, y}});
  both(l.x.data(), 2, {{&packed, nullptr, y}, {&other, nullptr, y}});
  const auto clipped = [&](float clip) {
    const QuantizedProjection p{&packed, nullptr, y};
    QuantizedLinear().Project(l.x.data(), 2, {.clip = clip}, {&p, 1});
  };
  const auto dense = [&](const DenseMatrix& w, const float* x, float* to, int64_t rows = 16, Math math = Math::kF32) {
    const Projection p{w, nullptr, to};
    Projector(math).Project(x, rows, {&p, 1});
  };
  const DenseMatrix w{l.w.data(), WeightType::kF32, 64, 128};
  const DenseMatrix columns{l.w.data(), WeightType::kF32, 64, 128, WeightOrder::kColumns};
  QuantizedMatrix without_codes = l.codes.view(), without_scales = without_codes;
  without_codes.codes = nullptr, without_scales.scales = nullptr;
  std::vector<float> row(128);
  ExpectErrors({
      {"clip -1", [&] { clipped(-1); }},
      {"clip infinite", [&] { clipped(kInf); }},
      {"clip NaN", [&] { clipped(kNan); }},
      {"blocks of 0", [] { OneToken(128, 0); }},
      {"-1 inputs", [] { OneToken(-1, 64); }},
      {"another weight", [&] { OneToken(64, 64).Project(packed, nullptr, y); }},
      {"larger blocks than groups",
       [&] {
         QuantizedMatrixBuffer m(Format::kInt4, 1, 128, 32);
         RoundRowToNearest(l.w.data(), ClipChoice::kAbsmax, m, 0);
         OneToken(128, 64).Project(PackedMatrix(m.view()), nullptr, y);
       }},
      {"x of one token null", [] { OneToken(64, 64).Load(nullptr); }},
      {"y of one token null", [&] { OneToken(128, 64).Project(packed, nullptr, nullptr); }},
      {"dense data null", [&] { dense({nullptr, WeightType::kF32, 64, 128}, l.x.data(), y); }},
      {"dense x null", [&] { dense(w, nullptr, y); }},
      {"dense y null", [&] { dense(w, l.x.data(), nullptr); }},
      {"dense -1 rows", [&] { dense(w, l.x.data(), y, -1); }},
      {"dense -1 inputs", [&] { dense({l.w.data(), WeightType::kF32, 64, -1}, l.x.data(), y); }},
      {"one row by columns", [&] { dense(columns, l.x.data(), y, 1); }},
      {"row product of nothing",
       [&] { RowProduct({}, Math::kF32, l.x.data(), nullptr, y), RowProduct(w, Math::kF32, nullptr, nullptr, y); }},
      {"packed without codes", [&] { PackedMatrix m(without_codes); }},
      {"packed without scales", [&] { PackedMatrix m(without_scales); }},
      {"read without codes", [&] { DequantizeRow(without_codes, 0, row.data()); }},
      {"read beyond", [&] { DequantizeRow(l.codes.view(), 64, row.data()); }},
  });
  if (HasProducts(Math::kBf16)) {
    EXPECT_THROW(dense(w, l.x.data(), y, 16, Math::kBf16), Error);
  }
}

}  // namespace
}  // namespace tare::misuse_test
