// SPDX-License-Identifier: Apache-2.0
// The reference against modules of every variant (tests/support/attention_module.h).
#include <gtest/gtest.h>

#include "kernels/attention/heads.h"
#include "tests/support/attention_module.h"

namespace tare::variants_test {
namespace {

using attention_module::ExpectNear;
using attention_module::kVariantModules;
using attention_module::ReadVariant;
using attention_module::Values;
using attention_module::VariantModule;

std::vector<OutputHead> TableOf(const VariantModule& a, int kv) {
  if (a.heads == "halves") return HalvesHeads(a.count, a.count);
  return a.heads == "v1" ? V1Heads(a.count, a.count) : StandardHeads(a.count, kv);
}

Values OutputOf(const VariantModule& a) {
  const int kv = a.module.Argument("kv_heads", a.count);
  const std::vector<OutputHead> heads = TableOf(a, kv);
  const int64_t q_width = a.Maps() * a.count, k_width = a.Maps() * kv;
  const int64_t keys = std::ssize(a.k) / (a.batch * k_width * a.d);
  const int v_width = static_cast<int>(std::ssize(a.v) / (a.batch * keys * kv));
  std::vector<float> unused(static_cast<size_t>(a.tokens * a.count * v_width));
  Values out;
  for (int b = 0; b < a.batch; ++b) {
    const AttentionProblem problem{
        .q = DenseHeads(a.q.data() + b * a.tokens * q_width * a.d, a.tokens, static_cast<int>(q_width), a.d),
        .k = DenseHeads(a.k.data() + b * keys * k_width * a.d, keys, static_cast<int>(k_width), a.d),
        .v = DenseHeads(a.v.data() + b * keys * kv * v_width, keys, kv, v_width),
        .heads = heads,
        .lambda = {.data = &a.lambda},
        .mask = a.mask,
        .scale = a.scale,
        .weights = a.variant.weights,
        .integral = a.variant.integral,
        .beta = a.beta,
        .out = DenseHeads(unused.data(), a.tokens, a.count, v_width)};
    const Values part = ReferenceAttentionDouble(problem);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

TEST(Variants, TheReferenceIsTheirs) {
  for (const char* name : kVariantModules) {
    SCOPED_TRACE(name);
    VariantModule a = ReadVariant(name);
    ExpectNear(OutputOf(a), a.module.tensors["o"]);
  }
}

// W of map m + A_m B_m are V1's rows of map 2h + m: its checkpoint is diff_v1's.
TEST(Variants, SharedDiffIsV1) {
  for (const char* name : {"shared-diff-a", "shared-diff-b"}) {
    VariantModule a = ReadVariant(name);
    std::map<std::string, Values>& t = a.module.tensors;
    for (const std::string projection : {"q_proj", "k_proj"}) {
      const Values& base = t[projection + ".base"];
      const int E = static_cast<int>(base.size()) / (a.count * a.d), rank = a.module.Argument("rank", 0);
      Values merged;
      for (int row = 0; row < 2 * a.count * a.d; ++row) {
        const int map = row / a.d % 2, from = row / a.d / 2 * a.d + row % a.d;
        const Values &up = t[projection + (map == 0 ? ".a1" : ".a2")],
                     &down = t[projection + (map == 0 ? ".b1" : ".b2")];
        for (int e = 0; e < E; ++e) {
          merged.push_back(base[from * E + e]);
          for (int r = 0; r < rank; ++r) merged.back() += up[from * rank + r] * down[r * E + e];
        }
      }
      ExpectNear(merged, t[projection + ".weight"], 1e-6);
    }
  }
}

}  // namespace
}  // namespace tare::variants_test
