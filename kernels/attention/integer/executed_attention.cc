// SPDX-License-Identifier: Apache-2.0
// Checks of plans, means of a prefix, and the call: packs K and V, then computes every block of every output head.
#include "kernels/attention/integer/executed_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/attention/integer/executed_layout.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"

namespace tare {

void CheckPlan(const AttentionPlan& plan, const AttentionProblem& problem) {
  const auto is_signed = [](const Format& f) { return f == Format::kInt8 || f == Format::kInt6 || f == Format::kInt4; };
  const auto is_unsigned = [](const Format& f) { return f == Format::kU8 || f == Format::kU6 || f == Format::kU4; };
  const auto check_signed = [&](const char* name, const Format& format) {
    if (!is_signed(format)) Fail("attention plan, {}: got {}, expected int8, int6 or int4", name, Name(format));
  };
  check_signed("q", plan.q);
  check_signed("k", plan.k);
  check_signed("v", plan.v);
  if (plan.logits != Format::kF32) check_signed("attn_logits", plan.logits);
  CheckRange("attention plan", "order", static_cast<int64_t>(plan.order), 0, 1);
  if (plan.order == AttentionPlan::Order::kEarly) {
    if (!is_signed(plan.probs) && !is_unsigned(plan.probs))
      Fail("attention plan, difference: got {}, expected int8, int6, int4, u8, u6 or u4", Name(plan.probs));
  } else if (!is_unsigned(plan.probs)) {
    Fail("attention plan, probs: got {}, expected u8, u6 or u4", Name(plan.probs));
  }
  CheckRange("attention plan", "scale of probs", static_cast<int64_t>(plan.prob_scale), 0, 1);
  if (!(plan.top >= 0 && plan.top <= static_cast<float>(Info(plan.probs).max_code)))
    Fail("attention plan, top: got {}, expected at most the {} of {}", plan.top, Info(plan.probs).max_code,
         Name(plan.probs));
  if (plan.order == AttentionPlan::Order::kEarly &&
      (plan.prob_scale == AttentionPlan::ProbScale::kRow || plan.top > 0 || plan.unnormalized))
    Fail("attention plan, difference: got a scale per row, a top or no norm, expected none; try the late order");
  if (plan.unnormalized && plan.v_mean != nullptr)
    Fail("attention plan, v: got a mean for maps that are not normalized, expected none; try no +smooth");
  if (plan.block < kTile || plan.block > kLargestBlock || plan.block % kTile != 0)
    Fail("attention plan: got key blocks of {}, expected a multiple of {} up to {}", plan.block, kTile, kLargestBlock);
  for (size_t row = 0; row < problem.heads.size(); ++row) {
    if (plan.order == AttentionPlan::Order::kEarly && !problem.heads[row].Differential())
      Fail("attention plan, head table row {}: got one map and the early order, expected two maps; try the late order",
           row);
  }
  if (!problem.sinks.empty() && (plan.k_mean != nullptr || plan.v_mean != nullptr))
    Fail(
        "attention plan, {}: got a mean for heads with sinks, whose rows do not sum to 1, expected none; try no "
        "+smooth",
        plan.k_mean != nullptr ? "k" : "v");
  if (problem.lse.data != nullptr && plan.k_mean != nullptr)
    Fail("attention plan, k: got a mean, which takes a constant from every lse, expected none; try no +smooth");
  CheckWidths(problem);
  if (!(problem.scale > 0)) Fail("attention scale: got {}, expected more than 0", problem.scale);
}

void MeanOfPrefix(const FloatHeads<const float>& x, float* mean, int64_t tokens) {
  if (const std::string wrong = WrongIn(x); !wrong.empty()) Fail("mean of a prefix: {}", wrong);
  CheckRange("mean of a prefix", "tokens", x.tokens, 1);
  CheckPointer("mean of a prefix, mean", mean, int64_t{x.heads} * x.width);
  tokens = std::min(x.tokens, tokens);
  const int64_t size = int64_t{x.heads} * x.width;
  std::fill_n(mean, size, 0.0f);
  std::vector<float> wide(x.halves == nullptr ? 0 : static_cast<size_t>(x.width));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int head = 0; head < x.heads; ++head)
      AddTo(mean + int64_t{head} * x.width, Widened(x, head, t, 1, wide.data()).Row(t, head), x.width);
  }
  ScaleInto(mean, 1.0f / static_cast<float>(tokens), static_cast<size_t>(size), mean);
}

size_t WorkspaceBytes(const AttentionPlan& plan, const AttentionProblem& problem) {
  return BytesOf(ExecutedLayout(plan, problem));
}

void ExecutedAttention(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace) {
  const ExecutedLayout layout(plan, problem);
  const Workspace memory(layout, workspace);
  const PackedHeads packed = memory.Packed();
  CheckMemory(problem);
  const ExecutedProducts products(layout);
  PackHeads(layout, packed, memory);
  ParallelFor(layout.RowBlocks(), [&](size_t index, int thread) {
    const ProductScope tiles;
    RunBlock(packed, products, memory.Scratch(thread), static_cast<int64_t>(index));
  });
}

}  // namespace tare
