// SPDX-License-Identifier: Apache-2.0
// Attention as oneDNN computes it on its own threads: the baselines of attention and decoding.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/attention/heads.h"

namespace tare {

// kInt8: dense Q, K and V, and the probabilities, in codes with one scale a tensor (StaticTensor), which each run
// writes.
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

// ---- Codes of the baselines in int8 (static_attention.cc)
//
// Attention in int8 with one scale a tensor, as oneDNN's quantized matmuls and softmax define it. The scales come from
// the largest magnitudes, before anything is timed:
//
//   q = code_q s_q, k and v likewise, codes -127 to 127       x[s] = scale s_q s_k code_q . code_k[s]
//   c[s] = round(255 softmax(x)[s])                           out  = s_v / 255 sum_s c[s] code_v[s]
//
// A probability below 1/510 has code 0, so rows that attend to many keys are lost. That is the method's error: a kernel
// is checked against a row in double on the same codes. It may differ by a code of a probability next to a tie, by the
// rounding of an output in codes, and by f32's.
inline constexpr float kStaticProbScale = 1.0f / 255;

// The codes of a dense tensor.
struct StaticTensor {
  explicit StaticTensor(HeadsView<const float> dense);

  void Write(int zero = 0);  // the codes, plus `zero`: 128 for u8
  const int8_t* Row(int64_t token, int head) const { return codes.data() + (token * x.heads + head) * x.width; }

  HeadsView<const float> x;
  float scale;
  std::vector<int8_t> codes;  // [tokens][heads][width]
};

// Throws Error, starting with `what`, if the output is wrong in one of at most `rows` rows spread over the sequence.
// out_scale: the step of the codes in which a kernel gives the output of a map; 0: it gives f32.
void CheckStaticAttention(const AttentionProblem& problem, const char* what, float out_scale, int64_t rows);

}  // namespace tare
