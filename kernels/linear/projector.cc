// SPDX-License-Identifier: Apache-2.0
// Projector on primitives that it makes once for each shape; then the gradients on sgemm.
#include "kernels/linear/projector.h"

#include <algorithm>
#include <new>
#include <string_view>

#include <dnnl.hpp>

#include "kernels/elementwise/rows.h"
#include "quant/base/float16.h"
#include "quant/base/memory.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Small enough to share 2048 x 1024 among several cores, large enough that oneDNN's repacking of W per chunk is below 1
// % (f32, chunks of 128 to 1024 rows: 216, 222, 221, 222 GFLOP/s). bf16 on AMX is faster: more rows share a repacking.
constexpr int64_t ChunkRows(Math math) { return math == Math::kBf16 ? 1024 : 512; }
constexpr int64_t kChunkOut = 512;
// Chunks of outputs are whole panels of 64 shared out evenly. Never a column by itself: oneDNN 3.7.2 writes a product
// with one column densely, whatever the stride of its destination.
constexpr int64_t kPanelOut = 64;

dnnl::engine& Engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& ThreadStream() {
  thread_local dnnl::stream stream(Engine());
  return stream;
}

// By WeightType.
constexpr std::array kDataTypes = {dnnl::memory::data_type::f32, dnnl::memory::data_type::bf16,
                                   dnnl::memory::data_type::f16};

// y_stride: the matrix's outputs.
dnnl::matmul::primitive_desc Describe(Math math, int64_t rows, int64_t out, int64_t in, int64_t y_stride,
                                      WeightType type, WeightOrder order, bool has_bias) {
  using dnnl::memory;
  const OneThread one_thread;  // whatever the caller's team: their blocking must not depend on it
  const auto x_type = math == Math::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc x({rows, in}, x_type, memory::dims{in, 1});
  const memory::dims strides = order == WeightOrder::kRows ? memory::dims{1, in} : memory::dims{y_stride, 1};
  const memory::desc w({in, out}, kDataTypes[static_cast<size_t>(type)], strides);
  const memory::desc y({rows, out}, memory::data_type::f32, memory::dims{y_stride, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!has_bias) return {Engine(), x, w, y, attributes};
  const memory::desc bias({1, out}, memory::data_type::f32, memory::dims{out, 1});
  return {Engine(), x, w, bias, y, attributes};
}

// With AVX2 oneDNN 3.7 multiplies f32 by rows of bf16 wrongly, without a word, unless their length is a multiple of 8.
bool IsWrong(const dnnl::matmul::primitive_desc& product, WeightType type, WeightOrder order, int64_t in) {
  return type == WeightType::kBf16 && order == WeightOrder::kRows && in % 8 != 0 &&
         std::string_view(product.impl_info_str()) == "brg_matmul:avx2";
}

// Whether a product of this shape has an implementation other than oneDNN's reference, and a right one.
bool HasFastProduct(Math math, WeightType type, int64_t out, int64_t in, WeightOrder order) {
  try {
    const dnnl::matmul::primitive_desc product = Describe(math, 64, out, in, out, type, order, false);
    return !std::string_view(product.impl_info_str()).starts_with("ref") && !IsWrong(product, type, order, in);
  } catch (const dnnl::error&) {
    return false;
  }
}

// ---- Gradients

// The largest blocks of dW, each a product over all rows. With AVX2 oneDNN 3.7 reads the factors of a small product
// where they lie, which takes twice as long where their rows are many KiB apart, and copies those of a larger one
// first (5504 x 2048, 2,048 rows, Zen 3, GFLOP/s: 512 x 512 32, 512 x 1024 64, whole 80). Small layers need blocks for
// every thread (256 x 256: 128 x 256 59, whole 60 to 73).
constexpr int64_t kBlockIn = 1024, kBlockOut = 512, kBlockOutOfFew = 128;

// The largest rows of a block of dx, with all its columns (256 to 1,024 rows: the same time within 10 %).
constexpr int64_t kBlockRows = 512;

// c = a b + beta c, or a^T b + beta c: c [m, n] with b's stride, a sum over k.
struct Block {
  char transposed;  // 'T' or 'N': whether a is [k, m]
  int64_t m, n, k;
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  float beta;
  float* c;
};

void Multiply(const Block& x) {
  const dnnl_status_t status =
      dnnl_sgemm(x.transposed, 'N', x.m, x.n, x.k, 1.0f, x.a, x.a_stride, x.b, x.b_stride, x.beta, x.c, x.b_stride);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success)
    Fail("oneDNN sgemm {} x {} x {}: got status {}, expected success", x.m, x.n, x.k, static_cast<int>(status));
}

// Calls body(begin, count) for parts of n of nearly equal size, at most `most` each.
void ForParts(int64_t n, int64_t most, const auto& body) {
  const int64_t parts = CeilDiv(n, most);
  for (int64_t part = 0; part < parts; ++part) body(n * part / parts, n * (part + 1) / parts - n * part / parts);
}

void AddBlocks(const ProductGradient& p, int64_t rows, std::vector<Block>& blocks) {
  if (p.d_weight != nullptr) {
    ForParts(p.out, p.in <= kBlockIn ? kBlockOutOfFew : kBlockOut, [&](int64_t o, int64_t out) {
      ForParts(p.in, kBlockIn, [&](int64_t i, int64_t in) {
        blocks.push_back({'T', out, in, rows, p.dy + o, p.out, p.x + i, p.in, 1.0f, p.d_weight + o * p.in + i});
      });
    });
  }
  if (p.dx != nullptr) {
    ForParts(rows, kBlockRows, [&](int64_t r, int64_t count) {
      blocks.push_back({'N', count, p.in, p.out, p.dy + r * p.out, p.out, p.weight, p.in, 0.0f, p.dx + r * p.in});
    });
  }
}

}  // namespace

struct Projector::Product {
  explicit Product(dnnl::matmul::primitive_desc d) : descriptor(std::move(d)), primitive(descriptor) {}
  dnnl::matmul::primitive_desc descriptor;
  dnnl::matmul primitive;

  void Run(const void* x, const void* weight, const float* bias, float* y) const {
    using dnnl::memory;
    thread_local AlignedBuffer<char> scratch;
    scratch.Reserve(descriptor.scratchpad_desc().get_size());
    const auto at = [](const memory::desc& desc, const void* data) {
      return memory(desc, Engine(), const_cast<void*>(data));
    };
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, at(descriptor.src_desc(), x)},
                                              {DNNL_ARG_WEIGHTS, at(descriptor.weights_desc(), weight)},
                                              {DNNL_ARG_DST, at(descriptor.dst_desc(), y)},
                                              {DNNL_ARG_SCRATCHPAD, at(descriptor.scratchpad_desc(), scratch.data())}};
    if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, at(descriptor.bias_desc(), bias));
    primitive.execute(ThreadStream(), arguments);
  }
};

bool HasProducts(Math math) {
  return math == Math::kF32 || HasFastProduct(math, WeightType::kBf16, kPanelOut, kPanelOut, WeightOrder::kRows);
}

Projector::Projector(Math math) : math_(math) {
  RequireRoom();
  if (!HasProducts(math)) Fail("bf16: this processor has no products of bf16; try --math f32");
}
Projector::~Projector() = default;

bool Projector::IsNative(WeightType type, int64_t out, int64_t in, WeightOrder order) const {
  const int64_t outputs = kPanelOut + out % kPanelOut, inputs = kPanelOut + in % kPanelOut;
  const std::array<int64_t, 4> key{static_cast<int64_t>(type), outputs, inputs, static_cast<int64_t>(order)};
  if (!native_.contains(key)) native_[key] = HasFastProduct(math_, type, outputs, inputs, order);
  return native_.at(key);
}

std::vector<std::string> Projector::Implementations() const {
  std::vector<std::string> names;
  for (const auto& [shape, product] : products_) names.emplace_back(product->descriptor.impl_info_str());
  return names;
}

const Projector::Product& Projector::ProductFor(int64_t rows, int64_t out, const Projection& projection) {
  const DenseMatrix& w = projection.weight;
  const bool has_bias = projection.bias != nullptr;
  auto& product =
      products_[{rows, out, w.in, w.out, static_cast<int64_t>(w.type), static_cast<int64_t>(w.order), has_bias}];
  if (product) return *product;
  RequireRoom();
  try {
    auto described = Describe(math_, rows, out, w.in, w.out, w.type, w.order, has_bias);
    if (IsWrong(described, w.type, w.order, w.in))
      Fail("projector: got {} inputs of bf16 weights, expected a multiple of 8 on this processor; try f32", w.in);
    product = std::make_unique<Product>(std::move(described));
  } catch (const dnnl::error& error) {
    Fail("oneDNN matmul {} x {} x {}: {}", rows, out, w.in, error.what());
  }
  return *product;
}

void Projector::Check(const float* x, int64_t rows, std::span<const Projection> projections) const {
  CheckRange("projector", "rows", rows, 0, int64_t{1} << 40);
  for (const Projection& p : projections) {
    CheckPointer("projector, x", x, rows);
    CheckWeight("projector", p.weight, p.y);
    CheckEqual("projector", "inputs", p.weight.in, projections[0].weight.in);
    if (rows == 1 && p.weight.order != WeightOrder::kRows) Fail("projector: got columns for one row, expected rows");
    if (rows > 1 && math_ == Math::kBf16 && p.weight.type != WeightType::kBf16)
      Fail("projector: got weights that are not bf16 for products of bf16; try Math::kF32");
  }
}

void Projector::ProjectOne(const float* x, std::span<const Projection> projections) {
  std::vector<float> rounded;
  if (math_ == Math::kBf16) {
    const auto in = static_cast<size_t>(projections[0].weight.in);
    rounded.resize(in);
    for (size_t i = 0; i < in; ++i) rounded[i] = FloatFromBf16(Bf16FromFloat(x[i]));
    x = rounded.data();
  }
  for (const Projection& p : projections) RowProduct(p.weight, math_, x, p.bias, p.y);
}

void Projector::Project(const float* x, int64_t rows, std::span<const Projection> projections) {
  Check(x, rows, projections);
  if (rows == 0 || projections.empty()) return;
  const int64_t in = projections[0].weight.in;
  if (rows == 1) return ProjectOne(x, projections);
  rows = PaddedRows(rows);
  const char* source = reinterpret_cast<const char*>(x);
  const int64_t source_row = in * (math_ == Math::kBf16 ? 2 : 4);
  if (math_ == Math::kBf16) {
    x_bf16_.Reserve(static_cast<size_t>(rows * in));
    ParallelFor(static_cast<size_t>(rows), [&](size_t r, int) { ToBf16(x + r * in, in, x_bf16_.data() + r * in); });
    source = reinterpret_cast<const char*>(x_bf16_.data());
  }

  chunks_.clear();
  const int64_t chunk_rows = ChunkRows(math_);
  for (const Projection& p : projections) {
    const int64_t panels = CeilDiv(p.weight.out, kPanelOut);
    const int64_t parts = CeilDiv(p.weight.out, kChunkOut);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t out = panels * part / parts * kPanelOut;
      const int64_t end = std::min(panels * (part + 1) / parts * kPanelOut, p.weight.out);
      for (int64_t row = 0; row < rows; row += chunk_rows) {
        chunks_.push_back({&ProductFor(std::min(chunk_rows, rows - row), end - out, p), &p, row, out});
      }
    }
  }
  ParallelFor(chunks_.size(), [&](size_t i, int) {
    const auto& [product, p, row, out] = chunks_[i];
    const int64_t values_before = p->weight.order == WeightOrder::kRows ? out * in : out;
    const char* weight = static_cast<const char*>(p->weight.data) + values_before * ElementBytes(p->weight.type);
    product->Run(source + row * source_row, weight, p->bias == nullptr ? nullptr : p->bias + out,
                 p->y + row * p->weight.out + out);
  });
}

void AddProductGradients(std::span<const ProductGradient> products, int64_t rows) {
  if (rows == 0) return;
  RequireRoom();
  std::vector<Block> blocks;
  for (const ProductGradient& p : products) AddBlocks(p, rows, blocks);
  ParallelFor(blocks.size(), [&](size_t i, int) { Multiply(blocks[i]); });
}

}  // namespace tare
