// SPDX-License-Identifier: Apache-2.0
// A randomised Hadamard rotation, which spreads an outlier in one channel over all of them (QuIP#, arXiv 2402.04396;
// QuaRot, arXiv 2404.00456):
//
//   x -> x R,   R = D H / sqrt(n),   D random signs, H H^T = n I with entries of +1 and -1
//
// H is Sylvester's for powers of two; for other sizes the Kronecker product of that with Paley's matrix of q + 1 rows
// (q prime, q = 3 mod 4), which makes 12, 20, 24, 44, ... and all their multiples by powers of two.
#pragma once

#include <cstdint>
#include <vector>

namespace tare {

class Hadamard {
 public:
  // Throws Error for a size for which no such matrix is known here: odd sizes except 1, and 2^k m if 2^j m - 1 is a
  // prime for no j from 2 to k.
  Hadamard(int64_t n, uint64_t seed);

  int64_t size() const { return static_cast<int64_t>(signs_.size()); }
  // y = x R for a row of size() values, summed in double; y may be x. Thread-safe.
  void Rotate(const float* x, float* y) const;
  // y = x R^T: undoes Rotate, except for rounding.
  void RotateBack(const float* x, float* y) const;

 private:
  int64_t base_ = 1;           // rows of Paley's matrix; the rest of n is a power of two
  std::vector<int8_t> paley_;  // [base, base]
  std::vector<int8_t> signs_;  // the diagonal of D
};

}  // namespace tare
