// SPDX-License-Identifier: Apache-2.0
// A case of linear_bench.h ready to run again and again: its weights in as many copies as one-token steps need, its
// input, and the check against the scalar reference.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "experiments/bench/linear_bench.h"
#include "kernels/linear/one_token.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

class PreparedLinear {
 public:
  // Throws Error for a plan that no linear kernel executes.
  explicit PreparedLinear(const LinearCase& c);

  void RunOnce();  // one call, on the next copy of the weights
  // Throws Error where the kernel and the scalar reference differ by more than f32 rounds.
  void Verify();

  bool OneTokenSteps() const { return !activation_.has_value(); }
  size_t weight_bytes() const { return weights_.front().Bytes(); }
  double rel_l2() const { return rel_l2_; }  // of Verify's rows

 private:
  void CheckRow(int64_t row);

  LinearCase case_;
  std::optional<Format> activation_;
  std::vector<float> x_, y_, dense_;  // dense_: W before quantization
  QuantizedMatrixBuffer quantized_;
  std::vector<PackedMatrix> weights_;
  QuantizedLinear linear_;
  std::optional<OneToken> token_;  // of one-token steps
  size_t next_ = 0;
  double rel_l2_ = 0, error_ = 0, size_ = 0;
};

// More than any cache: what one-token steps cycle over.
inline constexpr size_t kCycledBytes = size_t{521} << 20;

}  // namespace tare
