// SPDX-License-Identifier: Apache-2.0
// Prefill attention of one layer: causal, as many keys as queries. A call quantizes and packs Q, K and V.
#include <memory>

#include "kernels/attention/float/fused_attention.h"
#include "quant/base/message.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/executed.h"

namespace tare {
namespace {

struct Prefill {
  Prefill(const ModelShape& s, int64_t n)
      : in({.family = s.kind, .heads = s.heads, .kv = s.kv, .queries = n, .keys = n, .d = s.d, .v_width = s.v_width}) {}

  // The last row, which sees all keys, one with a tail, and the first; of the first head and the last.
  template <typename Wrong>
  std::string WrongRows(Wrong wrong_row) const {
    const int64_t n = in.problem.q.tokens;
    std::string wrong;
    for (const int64_t t : {n - 1, n / 2, int64_t{0}}) {
      for (const int head : {0, in.problem.out.heads - 1})
        if (wrong.empty()) wrong = wrong_row(in.problem, t, head);
    }
    return wrong;
  }

  // A pair takes 2 d for each map's logit, and 2 for each output channel, of the maps' difference.
  Work WorkOn(Limit limit) const {
    const double pairs = static_cast<double>(CountPairs(in.problem));
    const int maps = in.heads[0].Maps();
    return {.items = pairs,
            .item = "pair",
            .operations = pairs * 2 * (maps * in.problem.q.width + in.problem.out.width),
            .limit = limit};
  }

  RandomAttention in;
  AlignedBuffer<std::byte> workspace;
};

KernelCase Executed(const ModelShape& shape, const AttentionPrecision& precision, int64_t n) {
  const AttentionPlan plan = PlanOf(precision, 256);
  const auto x = std::make_shared<Prefill>(shape, n);
  x->workspace.Reset(WorkspaceBytes(plan, x->in.problem));
  return {.run = [=] { ExecutedAttention(plan, x->in.problem, x->workspace.span()); },
          .wrong =
              [=] {
                return x->WrongRows([&](const AttentionProblem& problem, int64_t t, int head) {
                  return WrongCodes(plan, problem, t, head);
                });
              },
          .work = x->WorkOn(Limit::kU8S8)};
}

KernelCase Fused(const ModelShape& shape, ProductTypes types, int64_t n) {
  const auto x = std::make_shared<Prefill>(shape, n);
  x->workspace.Reset(FusedWorkspaceBytes(x->in.problem, types));
  return {.run = [=] { FusedAttention(x->in.problem, x->workspace.span(), types); },
          .wrong =
              [=] {
                return x->WrongRows([&](const AttentionProblem& problem, int64_t t, int head) {
                  return WrongFloats(problem, t, head, FusedBound(problem, types));
                });
              },
          .work = x->WorkOn(types == ProductTypes::kBf16 ? Limit::kBf16 : Limit::kF32)};
}

}  // namespace

void AddAttentionRows(std::vector<KernelRow>& table) {
  for (const ModelShape& shape : kModelShapes) {
    for (const AttentionPrecision& precision : kAttentionPrecisions) {
      if (shape.kind == HeadKind::kStandard && precision.order == AttentionPlan::Order::kEarly) continue;
      table.push_back({.name = Formatted("ExecutedAttention/quantize_pack_prefill/{}/{}/{}", shape.family,
                                         precision.name, shape.name),
                       .size_name = "N",
                       .sizes = kLengths,
                       .tested = 131,
                       .make = [=](int64_t n, Extent) { return Executed(shape, precision, n); }});
    }
    for (const auto& [types, name] : {std::pair{ProductTypes::kF32, "f32"}, std::pair{ProductTypes::kBf16, "bf16"}}) {
      if (types == ProductTypes::kBf16 && !UkernelServes(types)) continue;
      table.push_back({.name = Formatted("FusedAttention/pack_prefill/{}/{}/{}", shape.family, name, shape.name),
                       .size_name = "N",
                       .sizes = kLengths,
                       .tested = 131,
                       .make = [=](int64_t n, Extent) { return Fused(shape, types, n); }});
    }
  }
}

}  // namespace tare
