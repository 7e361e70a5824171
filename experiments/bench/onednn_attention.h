// SPDX-License-Identifier: Apache-2.0
// Attention as oneDNN computes it on its own threads: the baselines of attention and decoding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/attention/heads.h"

namespace tare {

// kInt8: dense Q, K, V and probabilities in codes, one scale a tensor (StaticTensor), which each run writes.
enum class OneDnnNumbers { kF32, kInt8 };

// Both return what computes the output; its tensors must outlive it. Throw Error if oneDNN cannot do it.

// oneDNN's primitives: for each output head and map matmul, softmax, matmul over the whole [T][S] matrix, the mask
// added as 0 and -inf, the second map subtracted by a sum post-op. implementations, unless null: gets oneDNN's names.
std::function<void()> ComposedAttention(const AttentionProblem& problem, OneDnnNumbers numbers = OneDnnNumbers::kF32,
                                        std::vector<std::string>* implementations = nullptr);

// oneDNN Graph: scaled dot-product attention (matmul, multiply, add of the mask, softmax, matmul; in int8 with Quantize
// and Dequantize, outputs in codes) over all heads of a map. oneDNN 3.7.2 runs this one partition as the primitives
// above, head by head with more than two per thread; for two maps it runs twice, and Tare subtracts. Values wider than
// keys go in slices of the keys' width: given whole, oneDNN 3.7.2 computes something else.
std::function<void()> GraphAttention(const AttentionProblem& problem, OneDnnNumbers numbers = OneDnnNumbers::kF32);

}  // namespace tare
