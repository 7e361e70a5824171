// SPDX-License-Identifier: Apache-2.0
// Linear layers on oneDNN's matmul: y = x W^T (+ bias), reading W as the checkpoint stores it or as it is made.
//
//   x [rows, in] f32 row-major, W [out, in] row-major f32, bf16 or f16, bias [out] f32 or null, y [rows, out] f32
//
// Several rows take W^T [in, out], too.
//
// The work is cut into chunks of fixed size, each one single-threaded matmul, so results do not depend on the number of
// threads (oneDNN's own parallel matmul may split K). Row-major W is 2 to 3 % slower than oneDNN's blocked layout
// (measured: 222 against 227 GFLOP/s, 2048 x 1024 by 1024 x 2752, two threads, Zen 4) and needs no copy of the weights.
// f32 x bf16 and f32 x f16 run as fast as f32 with AVX-512. A single row takes the time of reading W (RowProduct).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quant/base/aligned.h"

namespace tare {

enum class WeightType { kF32, kBf16, kF16 };
enum class Math { kF32, kBf16 };  // type of the factors; sums are f32 in both
// What follows each other in memory: a row's inputs, or a column's outputs, as gpt-oss stores its experts.
enum class WeightOrder { kRows, kColumns };

constexpr size_t ElementBytes(WeightType type) { return type == WeightType::kF32 ? 4 : 2; }
// What factors that are made for products of several rows are made in.
constexpr WeightType FactorType(Math math) { return math == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32; }

struct DenseMatrix {
  const void* data = nullptr;  // [out, in] row-major, aligned to its element; kColumns: [in, out]
  WeightType type = WeightType::kF32;
  int64_t out = 0, in = 0;
  WeightOrder order = WeightOrder::kRows;
};

// One output of the shared x. y holds PaddedRows(rows) rows.
struct Projection {
  DenseMatrix weight;
  const float* bias = nullptr;
  float* y = nullptr;
  // Writes rows first .. first + count of a weight without data, of FactorType(math), as f32 [count, in]: a chunk's,
  // on several threads at once. The product is that of stored rows to the bit. Project throws what this throws.
  std::function<void(int64_t first, int64_t count, float* rows)> make = {};
};

// More than one row is computed in multiples of 16, so that batches of all lengths share a few oneDNN primitives
// (milliseconds to create), and an expert of few tokens multiplies few in vain. x and y hold as many, surplus finite.
constexpr int64_t PaddedRows(int64_t rows) { return (rows + 15) / 16 * 16; }

// Whether this machine has such products: all have kF32's, some kBf16's.
bool HasProducts(Math math);

// Memory grows with the largest call and is kept: a repeated call allocates nothing but what oneDNN allocates. One
// thread at a time may call an object, IsNative too; each may have its own.
class Projector {
 public:
  explicit Projector(Math math);
  ~Projector();
  Projector(const Projector&) = delete;
  Projector& operator=(const Projector&) = delete;

  // All projections share `in`. With Math::kBf16 x is rounded to bf16 once, and the weights of several rows must be
  // bf16. Throws Error for others, null pointers, sizes below 0 and one row by columns.
  void Project(const float* x, int64_t rows, std::span<const Projection> projections);

  // Whether this machine multiplies f32 (or bf16, under kBf16) by so many rows of this type of weight without oneDNN's
  // slow reference path. With AVX2 alone, oneDNN 3.7 has no fast product of f32 by bf16 or f16 where the number of rows
  // is no multiple of 8, and a wrong one of f32 by bf16 where their length is none: Project throws Error.
  bool IsNative(WeightType type, int64_t out, int64_t in, WeightOrder order = WeightOrder::kRows) const;
  // The oneDNN implementations of the products made so far; "ref..." is its slow reference path.
  std::vector<std::string> Implementations() const;
  Math math() const { return math_; }

 private:
  struct Product;
  struct Chunk {
    const Product* product;
    const Projection* projection;
    int64_t row, out, outs;
  };
  void ProjectOne(const float* x, std::span<const Projection> projections);
  // Rows first .. first + count of a weight, where they are stored or, made, in the thread's memory.
  const void* Rows(const Projection& projection, int64_t first, int64_t count) const;
  void Check(const float* x, int64_t rows, std::span<const Projection> projections) const;
  const Product& ProductFor(int64_t rows, int64_t out, const Projection& projection);

  const Math math_;
  AlignedBuffer<uint16_t> x_bf16_;
  std::vector<Chunk> chunks_;
  std::map<std::array<int64_t, 7>, std::unique_ptr<Product>> products_;  // by shape and types
  mutable std::map<std::array<int64_t, 4>, bool> native_;                // answers of IsNative
};

// One row through a floating-point matrix, the main cost of generating token by token with unquantized weights:
//
//   y[n] = sum over i of x[i] W[n, i] + bias[n]        f32 sums of f32 products, W as stored
//
// With bf16 factors, values of other types are rounded when read, to the nearest, ties to even; x is bf16 already.
// Reading W takes the time. One thread sums each output in a fixed order: bit-equal on any number of threads.
//
// x [in], bias [out] or null, y [out]. Throws Error for null pointers and sizes below 0.
void RowProduct(const DenseMatrix& weight, Math math, const float* x, const float* bias, float* y);

// Throws Error, starting with where, for a weight or y [out] that is not there, and sizes below 0 or beyond memory.
void CheckWeight(const char* where, const DenseMatrix& weight, const float* y);

// Gradients of products y = x W^T of f32 matrices, on oneDNN's sgemm, which reads transposed factors where they lie:
//
//   dW += dy^T x      dx = dy W
//
//   x [rows, in], W [out, in], y [rows, out], row-major
//
// The work is cut into blocks whose size hangs on the shapes alone, each a product on one thread: results do not depend
// on the number of threads. A call allocates a description of its blocks.
struct ProductGradient {
  const float* dy;
  const float* x;
  const float* weight;
  int64_t out, in;
  float* d_weight = nullptr;  // added to; null: not asked for
  float* dx = nullptr;        // null: not asked for
};

// All of as many rows; no output may overlap another or an input.
void AddProductGradients(std::span<const ProductGradient> products, int64_t rows);

}  // namespace tare
