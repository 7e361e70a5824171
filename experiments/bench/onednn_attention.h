// SPDX-License-Identifier: Apache-2.0
// Attention as oneDNN computes it on its own threads: the baselines of attention and decoding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/attention/heads.h"

namespace tare {

// kInt8: dense Q, K and V, and the probabilities, in codes with one scale a tensor (StaticTensor of
// attention_inputs.h), which each run writes.
enum class OneDnnNumbers { kF32, kInt8 };

// Both return what computes the problem's output, and keep a reference to its tensors. Throw Error if oneDNN cannot do
// it.

// The baseline built from oneDNN's primitives: for each output head and map matmul, softmax, matmul over the whole
// [T][S] matrix, the mask added as a matrix of 0 and -inf, the second map subtracted by the last matmul's sum post-op.
// implementations, unless null: gets oneDNN's names of those in use.
std::function<void()> ComposedAttention(const AttentionProblem& problem, OneDnnNumbers numbers = OneDnnNumbers::kF32,
                                        std::vector<std::string>* implementations = nullptr);

// The baseline built with oneDNN Graph: the pattern of scaled dot-product attention (matmul, multiply, add of the mask,
// softmax, matmul; in int8 with Quantize and Dequantize, and outputs in codes) over all heads of a map. It is one
// partition, which oneDNN 3.7.2 runs as the primitives above, head by head where there are more than two per thread;
// for two maps it runs twice, and Tare subtracts the second. Values wider than the keys go in slices of the keys'
// width: given whole, oneDNN 3.7.2 compiles them and computes something else.
std::function<void()> GraphAttention(const AttentionProblem& problem, OneDnnNumbers numbers = OneDnnNumbers::kF32);

}  // namespace tare
