// SPDX-License-Identifier: Apache-2.0
// The baseline built from oneDNN's f32 primitives: for each output head and map matmul, softmax, matmul over the whole
// [T][S] matrix, the mask added as a matrix of 0 and -inf, the second map subtracted by the last matmul's sum post-op.
// oneDNN's own threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/heads.h"

namespace tare {

class ComposedAttention {
 public:
  // Keeps a reference to the problem's tensors. Throws Error where oneDNN cannot.
  explicit ComposedAttention(const AttentionProblem& problem);
  ~ComposedAttention();
  void Run();
  // The names of oneDNN's implementations.
  const std::vector<std::string>& Implementations() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tare
