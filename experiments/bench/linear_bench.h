// SPDX-License-Identifier: Apache-2.0
// `tare bench linear`: speed of quantized linear layers, oneDNN's f32 (and bf16) matmul and the limits, in one run.
//
// A plan for weights and linear_in runs in integers; quantizing inputs is timed. A plan for only weights runs one token
// at a time; such steps, and their f32 baseline, cycle over more than 520 MiB of weights, so that no cache helps. A
// case must first agree with the scalar reference. Kernel and baselines alternate, each repetition at least 50 ms.
//
//   roofline_fraction = 2 rows out in / seconds / rate of u8 x s8
//                     = bytes of weights / seconds / rate of reading memory      for one-token steps
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/bench/roofline.h"
#include "experiments/passes/progress.h"
#include "experiments/table/table.h"
#include "kernels/linear/one_token.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

struct LinearCase {
  std::string plan = "weights=int8/channel,linear_in=int8/token";
  int64_t rows = 512, out = 2048, in = 2048;
  int threads = 1, repetitions = 7;
  uint64_t seed = 1;
};

struct LinearResult {
  LinearCase measured;
  double seconds = 0, spread = 0;          // median of a call; (largest - smallest) / median
  double f32_seconds = 0, f32_spread = 0;  // oneDNN
  double bf16_seconds = 0;                 // 0 if the CPU has no bf16
  double gops = 0, weights_gbps = 0, f32_weights_gbps = 0;
  double roofline_fraction = 0, roof_moved = 0;  // NaN: see RoofAround
  double bits_per_weight = 0;                    // in memory, with scales
  double rel_l2 = 0;                             // against the layer before quantization, in double
};

struct LinearBench {
  Roofline roofline;  // with as many threads as the first case
  std::vector<LinearResult> results;
};

// Throws Error for a case that cannot run or disagrees with the reference, before the first is timed.
LinearBench BenchLinear(const std::vector<LinearCase>& cases, const Progress& progress = {});

Table LinearBenchTable(const LinearBench& bench);  // one row per case

// {"schema":"tare.bench/1","bench":"linear",...}
Json LinearBenchJson(const LinearBench& bench, const std::string& cpu);

std::vector<LinearCase> DefaultLinearCases();  // of `tare bench linear` without arguments

// A case to run repeatedly: as many copies of its weights as one-token steps need, its input, and the scalar check.
class PreparedLinear {
 public:
  explicit PreparedLinear(const LinearCase& c);  // throws Error for a plan that no linear kernel executes

  void RunOnce();  // one call, on the next copy of the weights
  // Throws Error if the kernel and the scalar reference differ by more than f32's rounding.
  void Verify();

  bool OneTokenSteps() const { return !input_.has_value(); }
  size_t weight_bytes() const { return weights_.front().Bytes(); }
  double rel_l2() const { return rel_l2_; }  // over Verify's rows

 private:
  // x, or what it was rotated to.
  const float* Inputs() const { return rotated_.empty() ? x_.data() : rotated_.data(); }
  void CheckRow(int64_t row);

  LinearCase case_;
  std::optional<TokenFormat> input_;
  std::vector<float> x_, y_, dense_;  // dense_: W before quantization
  std::vector<float> rotated_;        // x, where codes are of rotated weights
  QuantizedMatrixBuffer quantized_;
  std::vector<PackedMatrix> weights_;
  QuantizedLinear linear_;
  OneTokenProjector token_;  // for one-token steps
  size_t next_ = 0;
  double rel_l2_ = 0, error_ = 0, size_ = 0;
};

// More than any cache: the memory that one-token steps cycle over.
inline constexpr size_t kCycledBytes = size_t{521} << 20;

}  // namespace tare
