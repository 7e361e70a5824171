// SPDX-License-Identifier: Apache-2.0
// The baseline built with oneDNN Graph: the pattern of scaled dot-product attention (matmul, multiply, add of the mask,
// softmax, matmul) over all heads of a map, which the library fuses where it can; for two maps it runs twice, and Tare
// subtracts the second. Values wider than the keys go in slices of the keys' width: given whole, oneDNN 3.7.2 compiles
// them and computes something else. oneDNN's own threads.
#pragma once

#include <memory>

#include "kernels/attention/heads.h"

namespace tare {

class GraphAttention {
 public:
  // Keeps a reference to the problem's tensors. Throws Error where oneDNN Graph does not take the pattern whole.
  explicit GraphAttention(const AttentionProblem& problem);
  ~GraphAttention();
  void Run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tare
