// SPDX-License-Identifier: Apache-2.0
// See composed_attention.h.
#include "experiments/bench/composed_attention.h"

#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/base/memory.h"

namespace tare {
namespace {

using dnnl::memory;
using Dims = memory::dims;

memory::desc Strided(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  return {Dims{rows, columns}, memory::data_type::f32, Dims{row_stride, column_stride}};
}

void* Pointer(const float* x) { return const_cast<float*>(x); }

}  // namespace

struct ComposedAttention::Parts {
  explicit Parts(const AttentionProblem& problem) : p(problem) {
    const int64_t T = p.q.tokens, S = p.k.tokens;
    scores.Reset(static_cast<size_t>(T) * S);
    mask.Reset(static_cast<size_t>(T) * S);
    for (int64_t t = 0; t < T; ++t) {
      const KeyRange keys = p.mask.Keys(t, T, S);
      for (int64_t s = 0; s < S; ++s)
        mask[t * S + s] = s >= keys.begin && s < keys.end ? 0.0f : -std::numeric_limits<float>::infinity();
    }
    const memory::desc matrix = Strided(T, S, S, 1);
    q = Strided(T, p.q.width, p.q.token_stride, 1);
    k = Strided(p.k.width, S, 1, p.k.token_stride);
    v = Strided(S, p.v.width, p.v.token_stride, 1);
    out = Strided(T, p.v.width, p.out.token_stride, 1);
    dnnl::post_ops scale_and_mask;
    scale_and_mask.append_eltwise(dnnl::algorithm::eltwise_linear, p.scale, 0);
    scale_and_mask.append_binary(dnnl::algorithm::binary_add, matrix);
    dnnl::primitive_attr attr;
    attr.set_post_ops(scale_and_mask);
    const auto made = [this](const auto& descriptor) {
      implementations.emplace_back(descriptor.impl_info_str());
      return descriptor;
    };
    using Product = dnnl::matmul::primitive_desc;
    qk = dnnl::matmul(made(Product(engine, q, k, matrix, attr)));
    softmax = dnnl::softmax_forward(made(dnnl::softmax_forward::primitive_desc(
        engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, matrix, matrix, 1)));
    pv = dnnl::matmul(made(Product(engine, matrix, v, out)));
    const float lambda = p.lambda.data == nullptr ? 0.0f : p.lambda.At(0, 0);
    dnnl::post_ops subtract;
    subtract.append_eltwise(dnnl::algorithm::eltwise_linear, -lambda, 0);
    subtract.append_sum(1.0f);
    dnnl::primitive_attr minus;
    minus.set_post_ops(subtract);
    minus_pv = dnnl::matmul(made(Product(engine, matrix, v, out, minus)));
  }

  void Map(int64_t q_head, int64_t k_head, int64_t v_head, float* to, const dnnl::matmul& last) {
    const memory::desc matrix = Strided(p.q.tokens, p.k.tokens, p.k.tokens, 1);
    memory x(matrix, engine, scores.data()), m(matrix, engine, mask.data());
    qk.execute(stream, {{DNNL_ARG_SRC, memory(q, engine, Pointer(p.q.Row(0, static_cast<int>(q_head))))},
                        {DNNL_ARG_WEIGHTS, memory(k, engine, Pointer(p.k.Row(0, static_cast<int>(k_head))))},
                        {DNNL_ARG_DST, x},
                        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, m}});
    softmax.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, x}});
    last.execute(stream, {{DNNL_ARG_SRC, x},
                          {DNNL_ARG_WEIGHTS, memory(v, engine, Pointer(p.v.Row(0, static_cast<int>(v_head))))},
                          {DNNL_ARG_DST, memory(out, engine, to)}});
  }

  const AttentionProblem& p;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  AlignedBuffer<float> scores, mask;
  memory::desc q, k, v, out;
  dnnl::matmul qk, pv, minus_pv;
  dnnl::softmax_forward softmax;
  std::vector<std::string> implementations;
};

ComposedAttention::ComposedAttention(const AttentionProblem& problem) {
  RequireRoom();
  try {
    parts_ = std::make_unique<Parts>(problem);
  } catch (const dnnl::error& error) {
    Fail("oneDNN primitives composed: {}", error.what());
  }
}

ComposedAttention::~ComposedAttention() = default;

const std::vector<std::string>& ComposedAttention::Implementations() const { return parts_->implementations; }

void ComposedAttention::Run() {
  const AttentionProblem& p = parts_->p;
  for (size_t h = 0; h < p.heads.size(); ++h) {
    const OutputHead& head = p.heads[h];
    for (int slice = 0; slice < head.VSlices(); ++slice) {
      float* to = p.out.Row(0, static_cast<int>(h)) + slice * p.v.width;
      parts_->Map(head.q1, head.k1, head.v[slice], to, parts_->pv);
      if (head.Differential()) parts_->Map(head.q2, head.k2, head.v[slice], to, parts_->minus_pv);
    }
  }
  parts_->stream.wait();
}

}  // namespace tare
