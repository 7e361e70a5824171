// SPDX-License-Identifier: Apache-2.0
// Descriptions of tensors, the mask, Composed (primitives head by head), and Graph (one partition for all heads).
#include "experiments/bench/onednn_attention.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>

#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_graph.hpp>

#include "experiments/bench/attention_inputs.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/aligned.h"
#include "quant/base/memory.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using dnnl::graph::logical_tensor;
using dnnl::graph::op;

using Type = logical_tensor::data_type;
using OpKind = op::kind;

// Q, K or V as oneDNN reads it: f32, or codes that each run writes.
struct Operand {
  Operand(HeadsView<const float> view, OneDnnNumbers numbers, int zero_code = 0) : x(view), zero(zero_code) {
    if (numbers == OneDnnNumbers::kInt8) coded.emplace(x);
  }

  memory::data_type type() const { return coded ? memory::data_type::s8 : memory::data_type::f32; }
  void Write() {
    if (coded) coded->Write(zero);
  }
  void* At(int64_t head, int64_t channel = 0) {
    const int64_t at = head * x.head_stride + channel;
    return coded ? static_cast<void*>(coded->codes.data() + at) : const_cast<float*>(x.data + at);
  }
  memory Scale(const dnnl::engine& engine) { return {{{1}, memory::data_type::f32, Dims{1}}, engine, &coded->scale}; }
  // A head as a matrix [tokens][width], or transposed.
  memory::desc Matrix() const { return {Dims{x.tokens, x.width}, type(), Dims{x.token_stride, 1}}; }
  memory::desc Transposed() const { return {Dims{x.width, x.tokens}, type(), Dims{1, x.token_stride}}; }

  HeadsView<const float> x;
  int zero;
  std::optional<StaticTensor> coded;
};

// [1, heads, tokens, width] in the caller's strides, with a constant step between the heads of a table.
logical_tensor Heads(size_t id, int64_t heads, int64_t tokens, int64_t width, int64_t head_stride, int64_t token_stride,
                     Type type = Type::f32) {
  return {id, type, logical_tensor::dims{1, heads, tokens, width},
          logical_tensor::dims{tokens * token_stride, head_stride, token_stride, 1}};
}

int64_t Step(const AttentionProblem& p, int OutputHead::* head) {
  return p.heads.size() < 2 ? 1 : p.heads[1].*head - p.heads[0].*head;
}

// [T][S], 0 or -inf.
AlignedBuffer<float> AddedMask(const AttentionProblem& p) {
  const int64_t T = p.q.tokens, S = p.k.tokens;
  AlignedBuffer<float> mask(static_cast<size_t>(T) * S);
  std::fill_n(mask.data(), mask.size(), -std::numeric_limits<float>::infinity());
  for (int64_t t = 0; t < T; ++t) {
    const KeyRange keys = p.Keys(t);
    std::fill(mask.data() + t * S + keys.begin, mask.data() + t * S + keys.end, 0.0f);
  }
  return mask;
}

logical_tensor Inner(size_t id, Type type = Type::f32, int dimensions = 4) {
  return {id, type, dimensions, logical_tensor::layout_type::strided};
}

struct Composed {
  Composed(const AttentionProblem& problem, OneDnnNumbers numbers, std::vector<std::string>& implementations)
      : p(problem), q(p.q, numbers), k(p.k, numbers), v(p.v, numbers) {
    const int64_t T = p.q.tokens, S = p.k.tokens;
    scores.Reset(static_cast<size_t>(T) * S);
    mask = AddedMask(p);
    matrix = probs = {Dims{T, S}, memory::data_type::f32, Dims{S, 1}};
    out = {Dims{T, p.v.width}, memory::data_type::f32, Dims{p.out.token_stride, 1}};
    dnnl::post_ops scale_and_mask, subtract;
    scale_and_mask.append_eltwise(dnnl::algorithm::eltwise_linear, p.scale, 0);
    scale_and_mask.append_binary(dnnl::algorithm::binary_add, matrix);
    subtract.append_eltwise(dnnl::algorithm::eltwise_linear, p.lambda.data == nullptr ? 0.0f : -p.lambda.At(0, 0), 0);
    subtract.append_sum(1.0f);
    dnnl::primitive_attr product, masked, minus, rounded;
    if (numbers == OneDnnNumbers::kInt8) {
      probs = {Dims{T, S}, memory::data_type::u8, Dims{S, 1}};
      codes.Reset(scores.size());
      rounded.set_scales_mask(DNNL_ARG_DST, 0);
      for (dnnl::primitive_attr* attr : {&product, &masked, &minus}) {
        for (const int factor : {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS}) attr->set_scales_mask(factor, 0);
      }
    }
    masked.set_post_ops(scale_and_mask);
    minus.set_post_ops(subtract);
    const auto made = [&](const auto& descriptor) {
      implementations.emplace_back(descriptor.impl_info_str());
      return descriptor;
    };
    using Product = dnnl::matmul::primitive_desc;
    qk = dnnl::matmul(made(Product(engine, q.Matrix(), k.Transposed(), matrix, masked)));
    softmax = dnnl::softmax_forward(made(dnnl::softmax_forward::primitive_desc(
        engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, matrix, probs, 1, rounded)));
    pv = dnnl::matmul(made(Product(engine, probs, v.Matrix(), out, product)));
    minus_pv = dnnl::matmul(made(Product(engine, probs, v.Matrix(), out, minus)));
  }

  void Map(int64_t q_head, int64_t k_head, int64_t v_head, float* to, const dnnl::matmul& last) {
    memory x(matrix, engine, scores.data()), m(matrix, engine, mask.data());
    memory y(probs, engine, codes.size() > 0 ? static_cast<void*>(codes.data()) : scores.data());
    Arguments logits{{DNNL_ARG_SRC, memory(q.Matrix(), engine, q.At(q_head))},
                     {DNNL_ARG_WEIGHTS, memory(k.Transposed(), engine, k.At(k_head))},
                     {DNNL_ARG_DST, x},
                     {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, m}};
    Arguments rows{{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}};
    Arguments values{{DNNL_ARG_SRC, y},
                     {DNNL_ARG_WEIGHTS, memory(v.Matrix(), engine, v.At(v_head))},
                     {DNNL_ARG_DST, memory(out, engine, to)}};
    if (q.coded) {
      const memory unit({{1}, memory::data_type::f32, Dims{1}}, engine, &prob_scale);
      logits.insert({{DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, q.Scale(engine)},
                     {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, k.Scale(engine)}});
      rows.insert({DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, unit});
      values.insert(
          {{DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, unit}, {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, v.Scale(engine)}});
    }
    qk.execute(stream, logits);
    softmax.execute(stream, rows);
    last.execute(stream, values);
  }

  void Run() {
    for (Operand* x : {&q, &k, &v}) x->Write();
    for (size_t h = 0; h < p.heads.size(); ++h) {
      const OutputHead& head = p.heads[h];
      for (int slice = 0; slice < head.VSlices(); ++slice) {
        float* to = p.out.Row(0, static_cast<int>(h)) + slice * p.v.width;
        Map(head.q1, head.k1, head.v[slice], to, pv);
        if (head.Differential()) Map(head.q2, head.k2, head.v[slice], to, minus_pv);
      }
    }
    stream.wait();
  }

  using Arguments = std::unordered_map<int, memory>;
  const AttentionProblem& p;
  Operand q, k, v;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  AlignedBuffer<float> scores, mask;
  AlignedBuffer<uint8_t> codes;  // of the probabilities
  float prob_scale = kStaticProbScale;
  memory::desc matrix, probs, out;
  dnnl::matmul qk, pv, minus_pv;
  dnnl::softmax_forward softmax;
};

// A Quantize or Dequantize with one scale.
op Coding(OpKind kind, size_t id, const logical_tensor& x, const logical_tensor& y, float scale, int64_t zero) {
  op coding(id, kind, {x}, {y}, "codes");
  coding.set_attr<std::vector<float>>(op::attr::scales, {scale});
  coding.set_attr<std::vector<int64_t>>(op::attr::zps, {zero});
  return coding;
}

// u8 for Q, probabilities and outputs: given s8 for Q, oneDNN 3.7.2 writes s8 probabilities, and loses half the codes.
struct Graph {
  static constexpr int kZero = 128;

  Graph(const AttentionProblem& problem, OneDnnNumbers numbers)
      : p(problem), q(p.q, numbers, kZero), k(p.k, numbers), v(p.v, numbers) {
    const int64_t T = p.q.tokens, S = p.k.tokens, H = std::ssize(p.heads);
    mask = AddedMask(p);
    const Type of_q = q.coded ? Type::u8 : Type::f32, of_kv = q.coded ? Type::s8 : Type::f32;
    const logical_tensor inputs_of[] = {
        Heads(0, H, T, p.q.width, Step(p, &OutputHead::q1) * p.q.head_stride, p.q.token_stride, of_q),
        Heads(1, H, S, p.k.width, Step(p, &OutputHead::k1) * p.k.head_stride, p.k.token_stride, of_kv),
        Heads(2, H, S, p.q.width, p.v.head_stride, p.v.token_stride, of_kv)};
    logical_tensor values[] = {inputs_of[0], inputs_of[1], inputs_of[2]};
    const logical_tensor factor{4, Type::f32, logical_tensor::dims{1}, logical_tensor::layout_type::strided};
    const logical_tensor added = Heads(5, 1, T, S, T * S, S);
    const logical_tensor scores = Inner(10), scaled = Inner(11), masked = Inner(12), probs = Inner(13);
    dnnl::graph::graph graph(dnnl::engine::kind::cpu);
    logical_tensor weights = probs;
    out = Heads(3, H, T, p.q.width, p.out.head_stride, p.out.token_stride);
    if (q.coded) {
      out_scale = v.coded->scale;  // a mean of values is at most the largest value
      out_codes.resize(static_cast<size_t>(T) * H * p.q.width);
      out = {3, Type::u8, logical_tensor::dims{1, T, H * p.q.width}, logical_tensor::layout_type::strided};
      const Operand* const operands[] = {&q, &k, &v};
      for (size_t i = 0; i < 3; ++i) {
        values[i] = Inner(20 + i);
        graph.add_op(
            Coding(OpKind::Dequantize, 20 + i, inputs_of[i], values[i], operands[i]->coded->scale, operands[i]->zero));
      }
      const logical_tensor rounded = Inner(14, Type::u8);
      weights = Inner(15);
      graph.add_op(Coding(OpKind::Quantize, 23, probs, rounded, kStaticProbScale, 0));
      graph.add_op(Coding(OpKind::Dequantize, 24, rounded, weights, kStaticProbScale, 0));
    }
    op qk(0, OpKind::MatMul, {values[0], values[1]}, {scores}, "scores");
    qk.set_attr<bool>(op::attr::transpose_b, true);
    op softmax(3, OpKind::SoftMax, {masked}, {probs}, "probs");
    softmax.set_attr<int64_t>(op::attr::axis, -1);
    graph.add_op(qk);
    graph.add_op(op(1, OpKind::Multiply, {scores, factor}, {scaled}, "scale"));
    graph.add_op(op(2, OpKind::Add, {scaled, added}, {masked}, "mask"));
    graph.add_op(softmax);
    const logical_tensor last = q.coded ? Inner(16) : out;
    graph.add_op(op(4, OpKind::MatMul, {weights, values[2]}, {last}, "values"));
    if (q.coded) {  // the pattern ends with tokens before heads, in codes
      const logical_tensor turned = Inner(17), row = Inner(18, Type::f32, 3);
      op turn(25, OpKind::StaticTranspose, {last}, {turned}, "tokens");
      turn.set_attr<std::vector<int64_t>>(op::attr::order, {0, 2, 1, 3});
      op join(26, OpKind::StaticReshape, {turned}, {row}, "row");
      join.set_attr<std::vector<int64_t>>(op::attr::shape, {1, T, H * p.q.width});
      join.set_attr<bool>(op::attr::special_zero, false);
      graph.add_op(turn);
      graph.add_op(join);
      graph.add_op(Coding(OpKind::Quantize, 27, row, out, out_scale, kZero));
    }
    graph.finalize();
    const std::vector<dnnl::graph::partition> partitions = graph.get_partitions();
    if (partitions.size() != 1)
      Fail("oneDNN Graph: cuts attention into {} partitions, expected one", partitions.size());
    inputs = partitions[0].get_input_ports();
    compiled = partitions[0].compile(inputs, {out}, engine);
    if (p.heads[0].Differential()) second.Reset(static_cast<size_t>(T) * H * p.v.width);
  }

  void Map(int q_head, int k_head, float* to) {
    for (int first = 0; first < p.v.width; first += p.q.width) {
      const void* const places[] = {q.At(q_head), k.At(k_head), v.At(0, first), nullptr, &p.scale, mask.data()};
      std::vector<dnnl::graph::tensor> arguments;
      for (const logical_tensor& input : inputs)
        arguments.emplace_back(input, engine, const_cast<void*>(places[input.get_id()]));
      void* const target = q.coded ? static_cast<void*>(out_codes.data()) : to + first;
      compiled.execute(stream, arguments, {dnnl::graph::tensor(out, engine, target)});
      if (q.coded) Decode(to + first);
    }
    stream.wait();
  }

  // Writes a slice of the outputs: `to` has the strides of problem.out.
  void Decode(float* to) {
    stream.wait();
    ParallelFor(static_cast<size_t>(p.q.tokens) * p.heads.size(), [&](size_t row, int) {
      const uint8_t* codes = out_codes.data() + row * p.q.width;
      for (int i = 0; i < p.q.width; ++i) to[row * p.v.width + i] = (codes[i] - kZero) * out_scale;
    });
  }

  void Run() {
    for (Operand* x : {&q, &k, &v}) x->Write();
    const OutputHead& first = p.heads[0];
    Map(first.q1, first.k1, p.out.data);
    if (!first.Differential()) return;
    Map(first.q2, first.k2, second.data());
    const int64_t H = std::ssize(p.heads), width = p.v.width;
    ParallelFor(static_cast<size_t>(p.q.tokens), [&](int64_t row, int) {
      for (int h = 0; h < H; ++h)
        SubtractScaled(p.out.Row(row, h), second.data() + (row * H + h) * width, p.lambda.At(row, h), width);
    });
  }

  const AttentionProblem& p;
  Operand q, k, v;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  logical_tensor out;
  std::vector<logical_tensor> inputs;
  dnnl::graph::compiled_partition compiled;
  AlignedBuffer<float> mask, second;
  std::vector<uint8_t> out_codes;  // [T][heads][width of q]
  float out_scale = 0;
};

// made(): a baseline with Run; what: its name in messages.
template <typename Make>
std::function<void()> Prepared(const char* what, const Make& made) {
  RequireRoom();
  try {
    return [baseline = made()] { baseline->Run(); };
  } catch (const dnnl::error& error) {
    Fail("{}: {}", what, error.what());
  }
}

}  // namespace

std::function<void()> ComposedAttention(const AttentionProblem& problem, OneDnnNumbers numbers,
                                        std::vector<std::string>* implementations) {
  std::vector<std::string> unread;
  return Prepared("oneDNN primitives composed", [&] {
    return std::make_shared<Composed>(problem, numbers, implementations == nullptr ? unread : *implementations);
  });
}

std::function<void()> GraphAttention(const AttentionProblem& problem, OneDnnNumbers numbers) {
  if (problem.heads[0].VSlices() != 1 || problem.v.width % problem.q.width != 0)
    Fail("oneDNN Graph: got values {} wide in {} slices, expected one slice of a multiple of {}", problem.v.width,
         problem.heads[0].VSlices(), problem.q.width);
  for (int64_t h = 0; h < std::ssize(problem.heads); ++h) {
    if (problem.heads[h].v[0] != h)
      Fail("oneDNN Graph: got heads that share keys and values, expected separate ones for each head");
  }
  return Prepared("oneDNN Graph", [&] { return std::make_shared<Graph>(problem, numbers); });
}

}  // namespace tare
