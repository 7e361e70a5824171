// SPDX-License-Identifier: Apache-2.0
// Attention as oneDNN computes it on its own threads: the baselines of attention and decoding.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/heads.h"

namespace tare {

// The baseline built from oneDNN's f32 primitives: for each output head and map matmul, softmax, matmul over the whole
// [T][S] matrix, the mask added as a matrix of 0 and -inf, the second map subtracted by the last matmul's sum post-op.
class ComposedAttention {
 public:
  // Keeps a reference to the problem's tensors. Throws Error if oneDNN cannot do it.
  explicit ComposedAttention(const AttentionProblem& problem);
  ~ComposedAttention();
  void Run();
  // The oneDNN implementations in use.
  const std::vector<std::string>& Implementations() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The baseline built with oneDNN Graph: the pattern of scaled dot-product attention (matmul, multiply, add of the mask,
// softmax, matmul) over all heads of a map, which the library fuses where it can; for two maps it runs twice, and Tare
// subtracts the second. Values wider than the keys go in slices of the keys' width: given whole, oneDNN 3.7.2 compiles
// them and computes something else.
class GraphAttention {
 public:
  // Keeps a reference to the problem's tensors. Throws Error if oneDNN Graph does not accept the whole pattern.
  explicit GraphAttention(const AttentionProblem& problem);
  ~GraphAttention();
  void Run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tare
