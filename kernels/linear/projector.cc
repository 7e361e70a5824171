// SPDX-License-Identifier: Apache-2.0
// Projector on primitives that it makes once for each shape; then the gradients on sgemm.
#include "kernels/linear/projector.h"

#include <algorithm>
#include <atomic>
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
// Rows of W that are made at a time on a thread, for one row or before they are rounded.
constexpr int64_t kMadeOut = 32;
// With AVX-512 so few rows of x are the second factor of f32 matrices, y^T = W x^T: oneDNN copies a second factor, and
// with few rows a product is too short for a copy of W (2,880 x 5,760, one thread, Zen 4: GFLOP/s with x as the second
// and as the first factor: 16 rows 79, 54; 32 100, 74; 64 104, 90; 128 104, 99). W in bf16 would have to be widened
// first, which takes as long.
constexpr int64_t kFewRows = 128;

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

// y^T = W x^T.
dnnl::matmul::primitive_desc DescribeTurned(int64_t rows, int64_t out, int64_t in) {
  using dnnl::memory;
  const OneThread one_thread;
  constexpr auto kF32 = memory::data_type::f32;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {Engine(),
          {{out, in}, kF32, memory::dims{in, 1}},
          {{in, rows}, kF32, memory::dims{1, in}},
          {{out, rows}, kF32, memory::dims{rows, 1}},
          attributes};
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
  explicit Product(dnnl::matmul::primitive_desc d, int64_t turned_out = 0, int64_t turned_rows = 0)
      : descriptor(std::move(d)), primitive(descriptor), out(turned_out), rows(turned_rows) {}
  dnnl::matmul::primitive_desc descriptor;
  dnnl::matmul primitive;
  int64_t out, rows;  // of DescribeTurned; 0: y = x W^T

  // y: rows of y_stride.
  void Run(const void* x, const void* weight, const float* bias, float* y, int64_t y_stride) const {
    if (rows == 0) return Execute(x, weight, bias, y);
    thread_local AlignedBuffer<float> sums;  // [out, rows]
    sums.Reserve(static_cast<size_t>(out * rows));
    Execute(weight, x, nullptr, sums.data());
    constexpr int64_t kOfLine = 16;
    for (int64_t row = 0; row < rows; row += kOfLine) {
      for (int64_t o = 0; o < out; ++o) {
        const float* const of_rows = sums.data() + o * rows + row;
        const float constant = bias == nullptr ? 0.0f : bias[o];
        for (int64_t r = 0; r < kOfLine; ++r) y[(row + r) * y_stride + o] = of_rows[r] + constant;
      }
    }
  }

 private:
  void Execute(const void* x, const void* weight, const float* bias, float* y) const {
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
    if (rows <= kFewRows && math_ == Math::kF32 && w.type == WeightType::kF32 && w.order == WeightOrder::kRows) {
      auto turned = DescribeTurned(rows, out, w.in);
      if (std::string_view(turned.impl_info_str()).starts_with("brg_matmul:avx512"))
        return *(product = std::make_unique<Product>(std::move(turned), out, rows));
    }
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
    DenseMatrix weight = p.weight;
    if (p.make != nullptr) weight.data = &p.make;  // not missing
    CheckWeight("projector", weight, p.y);
    if (p.make != nullptr && (weight.type != FactorType(math_) || weight.order != WeightOrder::kRows))
      Fail("projector: got a weight that is made of another type than factors, or by columns");
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
  for (const Projection& p : projections) {
    if (p.make == nullptr) {
      RowProduct(p.weight, math_, x, p.bias, p.y);
      continue;
    }
    ParallelForBlocks(p.weight.out, kMadeOut, [&](int64_t first, int64_t count) {
      const DenseMatrix made{Rows(p, first, count), p.weight.type, count, p.weight.in};
      RowProduct(made, math_, x, p.bias == nullptr ? nullptr : p.bias + first, p.y + first);
    });
  }
}

const void* Projector::Rows(const Projection& p, int64_t first, int64_t count) const {
  const DenseMatrix& w = p.weight;
  if (p.make == nullptr) {
    const int64_t values = w.order == WeightOrder::kRows ? first * w.in : first;
    return static_cast<const char*>(w.data) + values * static_cast<int64_t>(ElementBytes(w.type));
  }
  thread_local AlignedBuffer<float> made;
  thread_local AlignedBuffer<uint16_t> rounded;
  const bool in_f32 = w.type == WeightType::kF32;
  made.Reserve(static_cast<size_t>((in_f32 ? count : kMadeOut) * w.in));
  if (in_f32) return p.make(first, count, made.data()), made.data();
  rounded.Reserve(static_cast<size_t>(count * w.in));
  for (int64_t row = 0; row < count; row += kMadeOut) {
    const int64_t rows = std::min(kMadeOut, count - row);
    p.make(first + row, rows, made.data());
    ToBf16(made.data(), static_cast<size_t>(rows * w.in), rounded.data() + row * w.in);
  }
  return rounded.data();
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

  static std::atomic<uint64_t> calls = 0;
  const uint64_t call = ++calls;
  chunks_.clear();
  const int64_t chunk_rows = ChunkRows(math_);
  for (const Projection& p : projections) {
    const int64_t panels = CeilDiv(p.weight.out, kPanelOut);
    const int64_t parts = CeilDiv(p.weight.out, kChunkOut);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t out = panels * part / parts * kPanelOut;
      const int64_t end = std::min(panels * (part + 1) / parts * kPanelOut, p.weight.out);
      for (int64_t row = 0; row < rows; row += chunk_rows) {
        chunks_.push_back({&ProductFor(std::min(chunk_rows, rows - row), end - out, p), &p, row, out, end - out});
      }
    }
  }
  ParallelFor(chunks_.size(), [&](size_t i, int) {
    const auto& [product, p, row, out, outs] = chunks_[i];
    // A thread's next chunk mostly has the same rows of W, perhaps made.
    thread_local struct {
      uint64_t call = 0;
      const Projection* projection = nullptr;
      int64_t out = 0;
      const void* rows = nullptr;
    } last;
    if (last.call != call || last.projection != p || last.out != out) last = {call, p, out, Rows(*p, out, outs)};
    product->Run(source + row * source_row, last.rows, p->bias == nullptr ? nullptr : p->bias + out,
                 p->y + row * p->weight.out + out, p->weight.out);
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
