// SPDX-License-Identifier: Apache-2.0
// What algorithms share on the second moments H = X X^T [in, in] of calibration inputs X.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quant/base/aligned.h"

namespace tare {

// ---- Sums of rows times a matrix, for algorithms that round some rows of a matrix together, one column after another:
//
//   sums[j][r] += sum over k of m[k][j] x[k][r]
//
// The rows r are the lanes of vectors: a factor x [k] and a sum are kRowsTogether values, one of each row. The matrix
// lies in panels of kPanel columns, [k][kPanel] each. Products are added one after another by fused multiply-adds, so a
// sum is bit for bit that of a loop of std::fma over k, on any instruction set and however the k are cut into calls.
// Processors without them (x86 before 2013) compute them in software, very slowly.

inline constexpr int64_t kPanel = 8;          // columns; with these rows, the sums fill the registers of AVX-512
inline constexpr int64_t kRowsTogether = 32;  // share a reading of the matrix, which no cache holds
inline constexpr int64_t kColumnsLater =
    128;  // whose x (16 KB) and part of a panel (4 KB) stay in a core's first cache

struct Range {
  int64_t begin, end;
};

// A matrix [n, n] in panels; rows and columns beyond n are zeros.
class Panels {
 public:
  enum class Shape { kUpper, kFull };  // kUpper: a panel holds the rows to the end of its part of the diagonal alone

  Panels() = default;
  // from: row-major.
  Panels(Shape shape, int64_t n, const float* from);

  int64_t count() const { return CountOf(n_); }
  // Values of an x or of sums, by column, to the end of the last panel.
  static size_t ValuesFor(int64_t n) { return static_cast<size_t>(CountOf(n) * kPanel * kRowsTogether); }
  // As many zeros.
  static AlignedBuffer<float> Zeros(int64_t n);
  // m[k][column].
  float At(int64_t k, int64_t column) const { return Row(column / kPanel, k)[column % kPanel]; }

  // Sums of these panels' columns over these k, which the panels hold; x and sums: ValuesFor(n) values, 64-aligned.
  void AddProducts(Range k, Range panels, const float* x, float* sums) const;

 private:
  static int64_t CountOf(int64_t n) { return (n + kPanel - 1) / kPanel; }
  int64_t RowsOf(int64_t p) const { return shape_ == Shape::kFull ? count() * kPanel : (p + 1) * kPanel; }
  // Rows of all panels before p.
  int64_t Before(int64_t p) const { return shape_ == Shape::kFull ? p * count() * kPanel : p * (p + 1) / 2 * kPanel; }
  // Row k of a panel: [kPanel]. Rows lie one behind the other.
  const float* Row(int64_t p, int64_t k) const { return values_.data() + (Before(p) + k) * kPanel; }

  Shape shape_ = Shape::kFull;
  int64_t n_ = 0;
  AlignedBuffer<float> values_;
};

// ---- Moments

// Mean of H's diagonal, the unit of damping; 1 if every input is always 0.
inline double MeanOfDiagonal(const std::vector<float>& hessian, int64_t in) {
  double mean = 0;
  for (int64_t i = 0; i < in; ++i) mean += double{hessian[i * in + i]} / static_cast<double>(in);
  return mean > 0 ? mean : 1.0;
}

// H's largest eigenvalue, from below: 30 steps of the power method, from the input that is largest. 0 of zeros.
double LargestEigenvalue(const std::vector<float>& hessian, int64_t in);

// The upper triangle in both. Throws Error, starting with `where`, if it is not finite.
std::vector<float> BothTriangles(std::vector<float> hessian, int64_t in, const std::string& where);

// What an error D of weights does to a layer's outputs: ||D X||^2 = sum over rows d of d H d^T, exact, without X.
// errors: D [rows, in]; moments: H [in, in], both triangles. Uses all threads; the result does not depend on them.
// Products are in f32, their sums in double: off by at most 2^-24 in times sum |d_i H_ij d_j|.
double OutputError(std::span<const float> errors, int64_t in, std::span<const float> moments);

// Weights that compensate for the error of earlier layers (asymmetric calibration: GPTAQ, Li et al., arXiv 2504.02692).
// Behind rounded layers, a layer sees inputs x~ where the stored model has x. Over real weights, the error ||W X - W'
// X~||^2 + damping mean(diag) ||W' - W||^2 is least for
//
//   W' = W + W C H^-1
//   C  = sum of (x - x~) x~^T
//   H  = sum of x~ x~^T + damping mean(diag) I
//
// Rounding W' with H instead of W minimizes both errors together: ||W X - Q X~||^2 is a constant plus (W' - Q) H (W' -
// Q)^T. (The paper corrects while it rounds, one input at a time; this solves the same least-squares problem at once.)
//
// Qronos (Zhang et al., arXiv 2505.11695) is the same but for the code that is taken first, of input r. It stands for
// the weight that makes up for the whole error alone, undamped, with all others as they are stored:
//
//   W'_r = W_r + (W C)_r / H_rr       H_rr without damping; W_r where input r is always 0
//
// The others are the solution behind this code, where GPTQ moves them from the W' that solves for W'_r given: GPTAQ's
// plus a multiple of row r of H^-1. (Xilinx/brevitas b106358, graph/qronos.py, solves again after the first code.)
class AsymmetricTarget {
 public:
  // hessian: sum of x~ x~^T, upper triangle; cross: C; both [in, in]. Throws Error, starting with `where`, if H is not
  // positive definite. first: Qronos r's unit vector [in], which rotated inputs turn; empty: GPTAQ.
  AsymmetricTarget(const std::vector<float>& hessian, const std::vector<float>& cross, int64_t in, double damping,
                   const std::string& where, std::span<const float> first = {});

  // w [rows, in] becomes W'. Uses all threads.
  void Correct(int64_t rows, float* w) const;

 private:
  int64_t in_;
  Panels change_;  // C H^-1 [in, in]
};

// ---- Cholesky factors

// The Cholesky factor of a large matrix and its inverse, in place: tiles in f32, sums in double. Uses all threads;
// bit-equal on any number of threads and any instruction set, as the order of additions is fixed. 2 n^3 / 3 products; a
// second matrix in f64 would take as much memory as the layer's weights (8,192 inputs).
//
// a [n, n], row-major, only the lower triangle is read: A = L L^T. Writes L into it and leaves the rest. Throws Error,
// starting with `where`, if a pivot is not positive or not finite; the contents of a are then undefined.
void FactorInPlace(int64_t n, float* a, const std::string& where);

// lower [n, n]: replaces L, whose diagonal must not be 0, by L^-1 and leaves the rest.
void InvertInPlace(int64_t n, float* lower);

// c [rows, n] becomes c A^-1, with inverse = L^-1 [n, n].
void MultiplyByInverse(int64_t n, const float* inverse, int64_t rows, float* c);

}  // namespace tare
