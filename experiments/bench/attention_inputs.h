// SPDX-License-Identifier: Apache-2.0
// The tensors of a bench case, and the error of a result against the double reference. The data are chosen to separate
// methods of quantizing probabilities:
//
//   gaussian   Q, K, V standard normal
//   sink       the same, with 8 nats more on key 0 for every query
//   vbias      sink, with a mean of 2 in every channel of V
//   diffuse    logits a tenth as large, so that attention goes to all keys
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/plan/executed_plan.h"
#include "kernels/attention/heads.h"
#include "quant/base/aligned.h"

namespace tare {

// Number of keys and key/value heads; 0: as many as queries and heads.
struct KeyShape {
  int64_t keys = 0;
  int kv_heads = 0;
};

class AttentionInputs {
 public:
  // family: standard, v1, v2. Throws Error for an unknown family or data, sizes < 1, heads that kv_heads does not
  // divide, and queries that see no key under a causal mask.
  AttentionInputs(const std::string& family, const std::string& data, int64_t n, int d, int heads, Mask mask,
                  float lambda, uint64_t seed, KeyShape shape = {});
  AttentionInputs(const AttentionInputs&) = delete;
  AttentionInputs& operator=(const AttentionInputs&) = delete;

  const AttentionProblem& problem() const { return problem_; }
  // 4d, 8d or 6d times CountPairs.
  double LeastOperations() const;

  struct Errors {
    double rel_l2 = 0, max_row_rel_l2 = 0, cosine = 0;
  };
  // Error of problem().out, on at most 256 evenly spread rows.
  Errors ErrorsOfOut() const;

 private:
  void Shape(const std::string& data);

  std::vector<OutputHead> heads_;
  std::vector<float> q_, k_, v_;
  AlignedBuffer<float> out_;
  float lambda_;
  double operations_of_pair_ = 0;
  AttentionProblem problem_;
};

// The lowest possible error of an integer kernel: that of f32 attention on the same codes of Q, K and V. The kernel's
// probabilities and exponential cause the rest.
// Runs our f32 kernel on the dequantized tensors; writes to the inputs' out.
AttentionInputs::Errors FloorErrors(const AttentionInputs& inputs, const ExecutedPlan& plan);

}  // namespace tare
