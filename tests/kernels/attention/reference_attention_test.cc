// SPDX-License-Identifier: Apache-2.0
// The reference against the authors' own attention modules: projections, interleaved rotary, head norm and output
// projection here in double, attention by ReferenceAttention. tests/data/modules: x, weights, y as the modules of
// microsoft/unilm compute them.
#include "kernels/attention/heads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/attention_module.h"
#include "tests/support/whole_references.h"

namespace tare::reference_attention_test {
namespace {

using attention_module::ExpectNear;
using attention_module::Module;
using attention_module::Narrow;
using attention_module::Project;
using attention_module::ReadModule;
using attention_module::Rotate;
using attention_module::Values;

constexpr int kBatch = 2;
constexpr int kTokens = 33;

// Attention over each sequence of the batch: [batch * tokens][heads * out width]
Values Attend(const Values& q, const Values& k, const Values& v, int d, int v_width,
              const std::vector<OutputHead>& heads, const Values& lambda, LambdaView strides) {
  const std::vector<float> qf = Narrow(q), kf = Narrow(k), vf = Narrow(v), lf = Narrow(lambda);
  Values out;
  const int out_heads = static_cast<int>(heads.size());
  std::vector<float> unused(kTokens * out_heads * v_width);
  for (int b = 0; b < kBatch; ++b) {
    const auto view = [&](const std::vector<float>& x, int width) {
      const int row = static_cast<int>(x.size()) / (kBatch * kTokens);
      return DenseHeads(x.data() + b * kTokens * row, kTokens, row / width, width);
    };
    strides.data = lf.data() + b * kTokens * strides.token_stride;
    const AttentionProblem problem{.q = view(qf, d),
                                   .k = view(kf, d),
                                   .v = view(vf, v_width),
                                   .heads = heads,
                                   .lambda = strides,
                                   .scale = 1.0f / std::sqrt(static_cast<float>(d)),
                                   .out = DenseHeads(unused.data(), kTokens, out_heads, v_width)};
    const Values part = ReferenceAttentionDouble(problem);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

double Dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void ExpectV1(const std::string& name) {
  Module m = ReadModule(name);
  const int embed = m.Argument("embed_dim", 0), heads = m.Argument("num_heads", 0),
            kv = m.Argument("num_kv_heads", heads);
  const int d = embed / heads / 2;
  Values q = Project(m.tensors["x"], m.tensors["q_proj.weight"], embed);
  Values k = Project(m.tensors["x"], m.tensors["k_proj.weight"], embed);
  Rotate(q, kTokens, 2 * heads * d, d);
  Rotate(k, kTokens, 2 * kv * d, d);
  const double init = 0.8 - 0.6 * std::exp(-0.3 * m.Argument("depth", 0));
  const double lambda = std::exp(Dot(m.tensors["lambda_q1"], m.tensors["lambda_k1"])) -
                        std::exp(Dot(m.tensors["lambda_q2"], m.tensors["lambda_k2"])) + init;
  Values out = Attend(q, k, Project(m.tensors["x"], m.tensors["v_proj.weight"], embed), d, 2 * d, V1Heads(heads, kv),
                      {lambda}, {});
  for (size_t row = 0; row < out.size(); row += 2 * d) {
    double squares = 0;
    for (int i = 0; i < 2 * d; ++i) squares += out[row + i] * out[row + i];
    const double factor = (1 - init) / std::sqrt(squares / (2 * d) + 1e-5);
    for (int i = 0; i < 2 * d; ++i) out[row + i] *= factor * m.tensors["subln.weight"][i];
  }
  ExpectNear(Project(out, m.tensors["out_proj.weight"], embed), m.tensors["y"]);
}

TEST(ReferenceAttention, V1Depth0) { ExpectV1("unilm-v1-mha-depth0"); }
TEST(ReferenceAttention, V1Depth5) { ExpectV1("unilm-v1-mha-depth5"); }
TEST(ReferenceAttention, V1GroupedFlashPairing) { ExpectV1("unilm-v1-gqa-flash-depth2"); }

TEST(ReferenceAttention, V2LambdaOfTokenAndHead) {
  Module m = ReadModule("diff-v2-gqa");
  const int embed = m.Argument("embed_dim", 0), heads = m.Argument("num_heads", 0), kv = m.Argument("num_kv_heads", 0);
  const int d = m.Argument("head_dim", 0);
  Values q = Project(m.tensors["x"], m.tensors["q_proj.weight"], embed);
  Values k = Project(m.tensors["x"], m.tensors["k_proj.weight"], embed);
  Rotate(q, kTokens, 2 * heads * d, d);
  Rotate(k, kTokens, kv * d, d);
  Values lambda = Project(m.tensors["x"], m.tensors["lambda_proj.weight"], embed);
  for (double& x : lambda) x = 1 / (1 + std::exp(-x));
  const Values out = Attend(q, k, Project(m.tensors["x"], m.tensors["v_proj.weight"], embed), d, d, V2Heads(heads, kv),
                            lambda, {.token_stride = heads, .head_stride = 1});
  ExpectNear(Project(out, m.tensors["o_proj.weight"], heads * d), m.tensors["y"]);
}

// One query, two keys, d 1: p = (1, e^x) / (1 + e^x) by hand; and rows that see nothing.
TEST(ReferenceAttention, ByHand) {
  const std::vector<float> q = {5, 5, 2}, k = {0, 1}, v = {1, 3};
  std::vector<float> out(3, 7);
  const std::vector<OutputHead> heads = StandardHeads(1, 1);
  AttentionProblem problem{.q = DenseHeads(q.data(), 3, 1, 1),
                           .k = DenseHeads(k.data(), 2, 1, 1),
                           .v = DenseHeads(v.data(), 2, 1, 1),
                           .heads = heads,
                           .scale = 0.5f,
                           .out = DenseHeads(out.data(), 3, 1, 1)};
  ReferenceAttention(problem);
  EXPECT_EQ(out[0], 0);  // query 0 of 3 over 2 keys sees none
  EXPECT_EQ(out[1], 1);
  EXPECT_FLOAT_EQ(out[2], static_cast<float>((1 + 3 * std::exp(1.0)) / (1 + std::exp(1.0))));
  problem.mask = {Mask::Kind::kWindow, 1};
  ReferenceAttention(problem);
  EXPECT_EQ(out[2], 3);
}

}  // namespace
}  // namespace tare::reference_attention_test
