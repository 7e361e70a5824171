// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/bench/rivals.h"

#include <memory>

#include <omp.h>

#include "experiments/bench/onednn_attention.h"
#include "experiments/bench/roofline.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/executed.h"

namespace tare {
namespace {

enum class By { kPrimitives, kGraph };

// Attention in f32. queries: n for prefill, 1 for decoding, which then reads keys and values once.
KernelCase Attention(const ModelShape& s, By by, int64_t queries, int64_t n) {
  const auto in = std::make_shared<RandomAttention>(AttentionShape{
      .family = s.kind, .heads = s.heads, .kv = s.kv, .queries = queries, .keys = n, .d = s.d, .v_width = s.v_width});
  const AttentionProblem& p = in->problem;
  const auto run = by == By::kGraph ? GraphAttention(p) : ComposedAttention(p);
  const double pairs = static_cast<double>(CountPairs(p));
  const double bytes = 4.0 * static_cast<double>(n) * (p.k.heads * s.d + p.v.heads * s.v_width);
  Work work{.items = pairs, .item = "pair", .limit = Limit::kF32};
  work.operations = pairs * 2 * (in->heads[0].Maps() * s.d + p.out.width);
  if (queries == 1)
    work = {.items = pairs, .item = "key_and_head", .bytes = bytes, .limit = Limit::kRead, .memory = bytes};
  return {.run =
              [=, owner = in] {
                omp_set_num_threads(Threads());
                run();
              },
          .wrong =
              [=] {
                std::string wrong;
                for (const int64_t t : {queries - 1, queries / 2, int64_t{0}}) {
                  for (const int head : {0, in->problem.out.heads - 1})
                    if (wrong.empty())
                      wrong = WrongFloats(in->problem, t, head, FusedBound(in->problem, ProductTypes::kF32));
                }
                return wrong;
              },
          .work = work};
}

// Its weights and inputs are of 1: the yardstick has no output to check.
KernelCase Matmul(const LinearShape& shape, Math math, int64_t rows) {
  return {.run = [product = MatmulOf(math, rows, shape.out, shape.in)] { product(); },
          .wrong = [] { return ""; },
          .work = {.operations = 2.0 * static_cast<double>(rows * shape.out * shape.in),
                   .bytes = static_cast<double>(shape.out * shape.in) * (math == Math::kBf16 ? 2 : 4),
                   .limit = math == Math::kBf16 ? Limit::kBf16 : Limit::kF32}};
}

}  // namespace

void AddRivalRows(std::vector<KernelRow>& table) {
  for (const ModelShape& shape : kModelShapes) {
    for (const auto& [by, name] : {std::pair{By::kPrimitives, "primitives"}, std::pair{By::kGraph, "graph"}})
      // Both have whole matrices of logits.
      table.push_back({.name = Formatted("OnednnAttention/prefill/{}/onednn_f32_{}/{}", shape.family, name, shape.name),
                       .size_name = "N",
                       .sizes = {512, 1024, 2048, 4096},
                       .tested = 131,
                       .make = [=](int64_t n, Extent) { return Attention(shape, by, n, n); }});
    table.push_back({.name = Formatted("OnednnAttention/decode/{}/onednn_f32_primitives/{}", shape.family, shape.name),
                     .size_name = "N",
                     .sizes = kLengths,
                     .tested = 200,
                     .make = [=](int64_t n, Extent) { return Attention(shape, By::kPrimitives, 1, n); }});
  }
  for (const LinearShape& shape : kLinearShapes) {
    for (const auto& [math, name] : {std::pair{Math::kF32, "f32"}, std::pair{Math::kBf16, "bf16"}}) {
      if (math == Math::kBf16 && !UkernelServes(ProductTypes::kBf16)) continue;
      table.push_back({.name = Formatted("Roofline/matmul/onednn_{}/{}", name, shape.name),
                       .size_name = "rows",
                       .sizes = {1, 16, 512},
                       .tested = 17,
                       .make = [=](int64_t rows, Extent) { return Matmul(shape, math, rows); }});
    }
  }
}

}  // namespace tare
