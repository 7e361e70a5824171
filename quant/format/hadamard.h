// SPDX-License-Identifier: Apache-2.0
// Random maps of rows: a rotation before they are rounded, and a sketch of what rounding left.
//
// A randomised Hadamard rotation, which spreads an outlier in one channel over all of them (QuIP#, arXiv 2402.04396;
// QuaRot, arXiv 2404.00456), or over a run of neighbouring channels (MR-GPTQ, arXiv 2509.23202):
//
//   x -> x R,   R = D H / sqrt(run),   D random signs, H H^T = run I with entries of +1 and -1 inside each run, else 0
//
// A run's matrix is Sylvester's for powers of two, else its Kronecker product with Paley's matrix of q + 1 rows (q = 3
// mod 4, a prime or a prime's cube): 12, 20, 24, 28, 44, ... 344, ... and all their multiples by powers of two.
//
// The sketch: signs of a random projection of what rounding left of a row, one bit per channel, and the row's length:
// QJL (Zandieh et al., arXiv 2406.03482, def. 3.1), as TurboQuant adds it to keys (arXiv 2504.19874, algorithm 2).
//
//   r = x - D(x)     y = D(x) + sqrt(pi/2) / n |r| S^T sign(S r)     S [n, n] independent normal values
//
// For any q the mean of q y over S is q x: unbiased scores of more variance. S is one fixed matrix, as in a cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare {

// What a plan's +hadamard rotates: every run of so many neighbouring channels by itself.
struct RotatedRuns {
  int channels = 0;  // of a run; 0: all of a row
  friend bool operator==(RotatedRuns, RotatedRuns) = default;
};

class Hadamard {
 public:
  // run: channels of a run, which divide n; 0: all n. Throws Error for a run for which no such matrix is known here:
  // odd sizes except 1, and 2^k m if 2^j m - 1 is neither a prime nor the cube of one for any j from 2 to k with 2^j m
  // at most 2048, beyond which rotating costs as much as the layer.
  Hadamard(int64_t n, uint64_t seed, int64_t run = 0);

  int64_t size() const { return static_cast<int64_t>(signs_.size()); }
  int64_t run() const { return run_; }
  int64_t base() const { return base_; }  // rows of Paley's matrix
  // The rows of Paley's matrix for a run. Throws Error as the constructor does.
  static int64_t BaseOf(int64_t run);
  // D, and Paley's matrix [base, base], of one entry for powers of two: +1 and -1. It is I + S with S^T = -S.
  std::span<const float> signs() const { return signs_; }
  std::span<const float> paley() const { return *paley_; }
  // y = x R for a row of size() values, summed in double; y may be x. Thread-safe.
  void Rotate(const float* x, float* y) const;
  // y = x R^T: undoes Rotate, except for rounding.
  void RotateBack(const float* x, float* y) const;

 private:
  int64_t run_;
  int64_t base_;                     // the rest of a run is a power of two
  const std::vector<float>* paley_;  // [base, base], one for all rotations that have it
  std::vector<float> signs_;         // the diagonal of D
};

// The rotation of a plan's +hadamard, for all rows of n channels, made once and kept. Throws Error as the constructor.
const Hadamard& PlanRotation(int64_t n, RotatedRuns runs = {});

class SignSketch {
 public:
  // The sketch of rows of n >= 1 channels.
  SignSketch(int64_t n, uint64_t seed);

  int64_t size() const { return n_; }
  // Adds to a rounded row what the sketch of x less that row gives; all of size() finite values. Thread-safe.
  void AddResidual(std::span<const float> x, std::span<float> rounded) const;

 private:
  int64_t n_;
  std::vector<float> rows_;  // S
};

// The sketch of a plan's +sketch, the same for all rows of n channels. Made once, and kept while the program runs.
const SignSketch& PlanSketch(int64_t n);

}  // namespace tare
