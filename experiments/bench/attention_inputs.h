// SPDX-License-Identifier: Apache-2.0
// The tensors of a bench case, captured or made to separate methods of quantizing probabilities, and a result's error:
//
//   gaussian   Q, K, V standard normal
//   sink       the same, with 8 nats more on key 0 for every query
//   vbias      sink, with a mean of 2 in every channel of V
//   diffuse    logits a tenth as large, so that attention goes to all keys
#pragma once

#include <cmath>
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

// The heads of a case. Throws Error, starting with `where`, for a family other than standard, v1 and v2, and for
// key/value heads that do not divide `heads`; 0 of them: as many.
struct FamilyHeads {
  FamilyHeads(const char* where, const std::string& family, int heads, int kv_heads, int d);

  std::vector<OutputHead> table;
  int v, q, k, v_width;  // numbers of heads
};

// How far results are from what they should be.
struct OutputSums {
  double error = 0, want = 0, got = 0, product = 0;
  void Add(double g, double w) {
    error += (g - w) * (g - w);
    want += w * w;
    got += g * g;
    product += g * w;
  }
  double Relative() const { return std::sqrt(error / want); }
};

class AttentionInputs {
 public:
  // Throws Error for unknown mask or data, sizes < 1, heads that FamilyHeads refuses, causal queries without key.
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

// An integer kernel's least error: f32 attention on the same codes of Q, K and V, without errors of probabilities and
// exp. Runs our f32 kernel on the tensors as the simulated plan dequantizes them; writes to the inputs' out.
AttentionInputs::Errors FloorErrors(const AttentionInputs& inputs, const std::string& plan);

// ---- Codes of the baselines in int8
//
// Attention in int8 with one scale a tensor, as oneDNN's quantized matmuls and softmax define it. The scales come from
// the largest magnitudes, before anything is timed:
//
//   q = code_q s_q, k and v likewise, codes -127 to 127       x[s] = scale s_q s_k code_q . code_k[s]
//   c[s] = round(255 softmax(x)[s])                           out  = s_v / 255 sum_s c[s] code_v[s]
//
// Probabilities below 1/510 have code 0: rows that attend to many keys are lost, by the method. A kernel is checked on
// rows in double on the same codes, up to a code of a probability next to a tie, an output's rounding, and f32's.
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

// Throws Error, starting with `what`, if one of at most `rows` spread rows is wrong. out_scale: output step; 0: f32.
void CheckStaticAttention(const AttentionProblem& problem, const char* what, float out_scale, int64_t rows);

}  // namespace tare
