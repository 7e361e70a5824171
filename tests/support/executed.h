// SPDX-License-Identifier: Apache-2.0
// The executed attention of a random problem, from a workspace that holds nothing of use, and what is wrong with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/attention/integer/executed_attention.h"
#include "kernels/product/tile_product.h"
#include "quant/base/aligned.h"
#include "quant/base/integers.h"
#include "tests/support/quantized_reference.h"
#include "tests/support/random_attention.h"
#include "tests/support/wrong.h"

namespace tare {

// int8 throughout; probabilities u8 where heads are subtracted after P x V.
inline AttentionPlan PlanOf(AttentionPlan::Order order, int block = 64) {
  AttentionPlan plan;
  plan.order = order;
  plan.probs = order == AttentionPlan::Order::kEarly ? Format::kInt8 : Format::kU8;
  plan.block = block;
  return plan;
}

inline std::vector<float> Execute(const AttentionPlan& plan, RandomAttention& in) {
  AlignedBuffer<std::byte> workspace(WorkspaceBytes(plan, in.problem));
  std::fill_n(workspace.data(), workspace.size(), std::byte{0x7f});
  ExecutedAttention(plan, in.problem, workspace.span());
  return in.out;
}

// Row t of an output head as a problem of its own, with the keys that it sees and one head. Refers to the problem.
struct OneRow {
  OneRow(const AttentionProblem& p, int64_t t, int number) : head(p.heads[number]), problem(p) {
    const KeyRange keys = p.Keys(t);
    problem.mask.kind = Mask::Kind::kFull;
    problem.heads = {&head, 1};
    problem.q.data = p.q.Row(t, 0);
    problem.k.data = p.k.Row(keys.begin, 0);
    problem.v.data = p.v.Row(keys.begin, 0);
    if (head.Differential()) problem.lambda.data += t * p.lambda.token_stride + number * p.lambda.head_stride;
    problem.q.tokens = problem.out.tokens = problem.out.heads = 1;
    problem.k.tokens = problem.v.tokens = keys.end - keys.begin;
    problem.out.data = p.out.Row(t, number);
  }
  OneRow(const OneRow&) = delete;
  OneRow& operator=(const OneRow&) = delete;

  OutputHead head;
  AttentionProblem problem;
};

// A row of executed attention against the plan in plain loops. It sums the blocks' terms in f32, each rounded three
// times: 2^-24 of the magnitudes |P1 V| + lambda |P2 V| a term. One code off by one changes an output by some 1e-3 of
// them.
inline std::string WrongCodes(const AttentionPlan& plan, const AttentionProblem& problem, int64_t t, int head) {
  const std::vector<float> want = QuantizedReferenceRow(plan, problem, t, head).out;
  const OneRow one(problem, t, head);
  const bool none = one.problem.k.tokens == 0;
  const double magnitude = none ? 0.0 : ReferenceMagnitudes(one.problem)[0];
  const int64_t terms = std::max<int64_t>(40, one.head.Maps() * CeilDiv(problem.k.tokens, plan.block));
  const double bound = static_cast<double>(terms + 3) * 0x1p-24 * (magnitude + 1);
  std::string wrong;
  for (size_t i = 0; wrong.empty() && i < want.size(); ++i)
    wrong = WrongValue(Formatted("query {}, head {}, channel", t, head), static_cast<int64_t>(i),
                       problem.out.Row(t, head)[i], want[i], bound);
  return wrong;
}

// A row of attention in f32 or bf16 against the double reference; bound: of a value, with what its magnitude is times.
inline std::string WrongFloats(const AttentionProblem& problem, int64_t t, int head, double bound) {
  const OneRow one(problem, t, head);
  const std::vector<double> want = ReferenceAttentionDouble(one.problem);
  const double magnitude = ReferenceMagnitudes(one.problem)[0];
  std::string wrong;
  for (size_t i = 0; wrong.empty() && i < want.size(); ++i)
    wrong = WrongValue(Formatted("query {}, head {}, channel", t, head), static_cast<int64_t>(i),
                       problem.out.Row(t, head)[i], want[i], bound * (1 + magnitude));
  return wrong;
}

// The bound for FusedAttention. f32: a probability has the relative error of 2^x, 2.1e-7 and 6 roundings, and of its
// argument, (d + 3) eps of octaves (|x| < 12 of normal values); then as many terms of f32 sums as keys; all twice, for
// two maps. bf16: factors of 8 bits make logits within d^1/2 * 2^-8 of products of normal values, 4 standard deviations
// of which are 0.07 relative in p; V's rounding and the difference's are 2^-9 each. A wrong pairing is off by 1.
inline double FusedBound(const AttentionProblem& problem, ProductTypes types) {
  if (types == ProductTypes::kBf16) return 0.08;
  return 2 * (2.1e-7 + 0x1p-24 * ((problem.q.width + 3) * 12 + 6 + static_cast<double>(problem.k.tokens)));
}

// |got - want| / |want|, Euclidean.
template <typename T>
double RelativeError(const std::vector<float>& got, const std::vector<T>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    size += double{want[i]} * want[i];
  }
  return std::sqrt(error / size);
}

}  // namespace tare
