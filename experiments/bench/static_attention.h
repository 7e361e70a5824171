// SPDX-License-Identifier: Apache-2.0
// Attention in int8 with one scale a tensor, as oneDNN's quantized matmuls and softmax define it. The scales come from
// the largest magnitudes, before anything is timed:
//
//   q = code_q s_q, k and v likewise, codes -127 to 127       x[s] = scale s_q s_k code_q . code_k[s]
//   c[s] = round(255 softmax(x)[s])                           out  = s_v / 255 sum_s c[s] code_v[s]
//
// A probability below 1/510 has code 0, so rows that attend to many keys are lost. That is the method's error: a kernel
// is checked against a row in double on the same codes. It may differ by a code of a probability next to a tie, by the
// rounding of an output in codes, and by f32's.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/heads.h"

namespace tare {

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
