// SPDX-License-Identifier: Apache-2.0
// The tensors of a bench case, and the error of a result against the double reference. Data, chosen to separate methods
// of quantizing probabilities:
//
//   gaussian   Q, K, V standard normal
//   sink       the same, and key 0 has 8 nats more for every query
//   vbias      sink, and V has a mean of 2 in every channel
//   diffuse    logits a tenth as large: attention to everything
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention/heads.h"

namespace tare {

// Of keys and values; 0: as many as queries, as heads.
struct KeyShape {
  int64_t keys = 0;
  int kv_heads = 0;
};

class AttentionInputs {
 public:
  // family: standard, v1, v2. Throws Error for another name of family or data, sizes < 1, heads that kv_heads do not
  // divide, and queries under a causal mask that see no key.
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
  // Of what problem().out holds, on at most 256 rows evenly spread.
  Errors ErrorsOfOut() const;

 private:
  void Shape(const std::string& data);

  std::vector<OutputHead> heads_;
  std::vector<float> q_, k_, v_, out_;
  float lambda_;
  double operations_of_pair_ = 0;
  AttentionProblem problem_;
};

}  // namespace tare
