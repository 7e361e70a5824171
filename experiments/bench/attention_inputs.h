// SPDX-License-Identifier: Apache-2.0
// The tensors of a bench case, and the error of a result against the double reference. The data are tensors of another
// program, or made, and chosen to separate methods of quantizing probabilities:
//
//   gaussian   Q, K, V standard normal
//   sink       the same, with 8 nats more on key 0 for every query
//   vbias      sink, with a mean of 2 in every channel of V
//   diffuse    logits a tenth as large, so that attention goes to all keys
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/heads.h"
#include "quant/base/aligned.h"

namespace tare {

struct AttentionCase {
  std::string kernel = "tare";  // tare (plan), tare-f32, tare-bf16, onednn-f32, -int8, onednn-graph, -graph-int8
  std::string family = "v1";    // standard v1 v2; captured tensors: also diffllama
  std::string plan;             // for kernel tare
  int64_t n = 4096;             // queries
  int64_t keys = 0;             // 0: as many as queries; under a causal mask, at least as many
  int d = 128;
  int heads = 4;     // output heads
  int kv_heads = 0;  // a divisor of heads; 0: the same number
  int threads = 1;
  std::string mask = "causal";    // causal full
  std::string data = "gaussian";  // as above
  float lambda = 0.5f;
  int repetitions = 5;
  uint64_t seed = 1;
  // Captured tensors, of which the first n tokens count; the fields above describe them. Null: data are made.
  std::shared_ptr<const AttentionProblem> captured = nullptr;

  bool operator==(const AttentionCase&) const = default;

  // Whether all heads and tokens have one lambda, as made data do; captured ones may have their own.
  bool HasOneLambda() const {
    return captured == nullptr || (captured->lambda.token_stride == 0 && captured->lambda.head_stride == 0);
  }
};

class AttentionInputs {
 public:
  // Throws Error for an unknown family, mask or data, sizes < 1, heads that kv_heads does not divide, and queries that
  // see no key under a causal mask.
  explicit AttentionInputs(const AttentionCase& c);
  AttentionInputs(const AttentionInputs&) = delete;
  AttentionInputs& operator=(const AttentionInputs&) = delete;

  const AttentionProblem& problem() const { return problem_; }
  // 2 d for each map and 2 for each channel of the output (standard 4d, V1 8d, V2 6d), times CountPairs.
  double LeastOperations() const;

  struct Errors {
    double rel_l2 = 0, max_row_rel_l2 = 0, cosine = 0;
  };
  // Error of problem().out, on at most 256 evenly spread rows, whose reference is kept.
  Errors ErrorsOfOut() const;

 private:
  void Make(const AttentionCase& c);
  void Shape(const std::string& data);

  std::vector<OutputHead> heads_;
  std::vector<float> q_, k_, v_;
  AlignedBuffer<float> out_;
  mutable std::vector<double> want_, magnitudes_;  // of the compared rows: [rows][heads][width], [rows][heads]
  float lambda_;
  AttentionProblem problem_;
};

// The lowest possible error of an integer kernel: that of f32 attention on the same codes of Q, K and V. The kernel's
// probabilities and exponential cause the rest.
// Runs our f32 kernel on the dequantized tensors of the simulated plan; writes to the inputs' out.
AttentionInputs::Errors FloorErrors(const AttentionInputs& inputs, const std::string& plan);

}  // namespace tare
