// SPDX-License-Identifier: Apache-2.0
// usage: attention_fuzz SECONDS SEED. Random problems and plans, with hostile sizes and values, every path against an
// independent one: executed attention against the same integers in plain loops, the f32 kernel against the double
// reference. A difference beyond its bound aborts with the seed and the round, which replay it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/integer/executed_attention.h"
#include "quant/base/aligned.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/random_attention.h"
#include "tests/support/whole_references.h"

namespace {

using namespace tare;
using Random = std::mt19937_64;

template <typename T>
T Pick(Random& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

AttentionShape RandomShape(Random& random) {
  AttentionShape s;
  s.family = Pick(random, {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2});
  s.kv = Pick(random, {1, 2});
  s.heads = s.kv * Pick(random, {1, 2});
  s.queries = Pick<int64_t>(random, {1, 2, 15, 16, 17, 63, 64, 65, 100});
  s.keys = Pick<int64_t>(random, {1, 2, 31, 63, 64, 65, 127, 129, 200});
  s.d = Pick(random, {1, 3, 4, 16, 33, 64});
  s.v_width = Pick(random, {1, 5, 32, 64, 65});
  s.mask.kind = Pick(random, {Mask::Kind::kFull, Mask::Kind::kCausal, Mask::Kind::kWindow});
  s.mask.window = Pick<int64_t>(random, {1, 7, 64, 1000});
  s.mask.shift = Pick<int64_t>(random, {0, 0, -70, -1, 3});
  s.pad = Pick(random, {0, 1, 3});
  return s;
}

AttentionPlan RandomPlan(Random& random, const AttentionShape& shape) {
  AttentionPlan plan;
  const auto code = [&] { return Pick(random, {Format::kInt8, Format::kInt6, Format::kInt4}); };
  plan.q = code(), plan.k = code(), plan.v = code();
  plan.v_scale = Pick(random, {AttentionPlan::ValueScale::kBlock, AttentionPlan::ValueScale::kSequence,
                               AttentionPlan::ValueScale::kHead});
  plan.logits = Pick(random, {Format::kF32, Format::kF32, Format::kInt8, Format::kInt6, Format::kInt4});
  plan.block = Pick(random, {64, 128, 256});
  const bool early = shape.family != HeadKind::kStandard && random() % 2 == 0;
  plan.order = early ? AttentionPlan::Order::kEarly : AttentionPlan::Order::kLate;
  plan.probs = early && random() % 2 == 0 ? code() : Pick(random, {Format::kU8, Format::kU6, Format::kU4});
  if (early) return plan;
  plan.prob_scale = Pick(random, {AttentionPlan::ProbScale::kBlock, AttentionPlan::ProbScale::kRow});
  plan.top = Pick(random, {0.0f, 0.0f, 9.0f, 14.5f});
  plan.unnormalized = random() % 2 == 0;
  return plan;
}

// Sinks, rows and heads of zeros, tiny and large magnitudes.
void Spoil(Random& random, RandomAttention& c) {
  std::vector<float>* const tensors[] = {&c.q, &c.k, &c.v};
  std::vector<float>& x = *tensors[random() % 3];
  const float factor = Pick(random, {0.0f, 1e-20f, 1e-3f, 30.0f});
  const size_t first = random() % x.size(), count = random() % (x.size() - first) + 1;
  if (random() % 2 == 0)
    std::for_each_n(x.begin() + static_cast<ptrdiff_t>(first), count, [&](float& v) { v *= factor; });
}

std::string Describe(const AttentionShape& s, const AttentionPlan& p) {
  const auto name = [](Format format) { return Name(format); };
  return Formatted(
      "family {} heads {} kv {} T {} S {} d {} width {} mask {} window {} shift {} pad {}; q {} k {} v {}{} logits {} "
      "{} {} block {}{} top {}{}{}{}",
      static_cast<int>(s.family), s.heads, s.kv, s.queries, s.keys, s.d, s.v_width, static_cast<int>(s.mask.kind),
      s.mask.window, s.mask.shift, s.pad, name(p.q), name(p.k), name(p.v),
      p.v_scale == AttentionPlan::ValueScale::kBlock      ? " a block"
      : p.v_scale == AttentionPlan::ValueScale::kSequence ? " a channel"
                                                          : " a head",
      name(p.logits), p.order == AttentionPlan::Order::kEarly ? "early" : "late", name(p.probs), p.block,
      p.prob_scale == AttentionPlan::ProbScale::kRow ? " by row" : "", p.top, p.unnormalized ? " unnormalized" : "",
      p.q_mean == nullptr ? "" : " mean of q", p.k_mean == nullptr ? "" : " mean of k");
}

struct Fuzz {
  uint64_t seed, round = 0;
  std::string problem;

  // values is within `share` of the row's magnitudes |P1 V| + lambda |P2 V| and of the largest |V| of all.
  void Compare(const char* what, const std::vector<float>& got, const std::vector<double>& want,
               const RandomAttention& c, double share) const {
    const std::vector<double> magnitudes = ReferenceMagnitudes(c.problem);
    double largest = 0;
    for (const float v : c.v) largest = std::isfinite(v) ? std::max(largest, std::fabs(double{v})) : largest;
    for (size_t i = 0; i < got.size(); ++i) {
      const double bound = share * (magnitudes[i / c.problem.out.width] + largest) + 1e-30;
      if (std::fabs(got[i] - want[i]) <= bound) continue;
      std::fprintf(stderr,
                   "attention_fuzz: seed %llu round %llu: %s: value %zu: got %.9g, expected %.9g within %.3g\n%s\n",
                   static_cast<unsigned long long>(seed), static_cast<unsigned long long>(round), what, i, got[i],
                   want[i], bound, problem.c_str());
      std::abort();
    }
  }

  void Executed(const AttentionPlan& plan, RandomAttention& c) const {
    AlignedBuffer<std::byte> workspace(WorkspaceBytes(plan, c.problem));
    ExecutedAttention(plan, c.problem, workspace.span());
    const std::vector<float> got = c.out;
    QuantizedReference(plan, c.problem);
    // f32 sums of a few blocks' terms, as in executed_attention_test.
    Compare("executed against plain loops", got, {c.out.begin(), c.out.end()}, c, 43 * 0x1p-24);
  }

  void Float(RandomAttention& c) const {
    AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(c.problem));
    FusedAttention(c.problem, workspace.span());
    // Logits of up to 64 products of magnitude 30 * 30 carry 2^-24 * 900 * 8 of absolute error into the exponent.
    Compare("f32 against the reference", c.out, ReferenceAttentionDouble(c.problem), c, 2e-3);
    Bf16(c);
  }

  // As Float, with factors of 8 bits: against f32 on factors that were rounded before, and a power of two as the scale
  // that multiplies Q first, where logits are alike. V and the difference are rounded inside.
  void Bf16(RandomAttention& c) const {
    c.problem.scale = std::exp2(std::round(std::log2(c.problem.scale)));
    for (std::vector<float>* x : {&c.q, &c.k})
      for (float& value : *x) value = FloatFromBf16(Bf16FromFloat(value));
    AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(c.problem, ProductTypes::kBf16));
    FusedAttention(c.problem, workspace.span(), ProductTypes::kBf16);
    Compare("bf16 against the reference", c.out, ReferenceAttentionDouble(c.problem), c, 2e-3 + 2 * 0x1p-8);
  }

  void Run(int64_t seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    for (; std::chrono::steady_clock::now() < end; ++round) {
      Random random(seed * 1000003 + round);
      SetThreads(Pick(random, {1, 2, 7}));
      const AttentionShape shape = RandomShape(random);
      RandomAttention c(shape, static_cast<unsigned>(random()));
      Spoil(random, c);
      AttentionPlan plan = RandomPlan(random, shape);
      std::vector<float> q_mean(static_cast<size_t>(c.problem.q.heads) * c.problem.q.width);
      std::vector<float> k_mean(static_cast<size_t>(c.problem.k.heads) * c.problem.k.width);
      MeanOfPrefix(c.problem.q, q_mean.data());
      if (random() % 3 == 0) plan.q_mean = q_mean.data();
      MeanOfPrefix(c.problem.k, k_mean.data());
      if (random() % 3 == 0) plan.k_mean = k_mean.data();
      std::vector<float> sinks(static_cast<size_t>(c.problem.q.heads));
      for (float& sink : sinks)
        sink = Pick(random, {-std::numeric_limits<float>::infinity(), -1e9f, -2.0f, 0.0f, 3.0f, 40.0f, 1e9f});
      if (plan.k_mean == nullptr && random() % 3 == 0) c.problem.sinks = sinks;
      problem = Describe(shape, plan) + (c.problem.sinks.empty() ? "" : " sinks");
      Executed(plan, c);
      Float(c);
    }
    std::printf("attention_fuzz: seed %llu, %llu rounds\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(round));
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: attention_fuzz SECONDS SEED\n", stderr), 2;
  Fuzz{.seed = std::strtoull(argv[2], nullptr, 10)}.Run(std::strtoll(argv[1], nullptr, 10));
  return 0;
}
