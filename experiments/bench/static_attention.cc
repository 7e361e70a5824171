// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/onednn_attention.h"

#include <algorithm>
#include <cmath>

#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// 255 softmax of a query's logits over the keys that it sees.
std::vector<double> Probabilities(const int8_t* q, const StaticTensor& k, int head, KeyRange keys, double scale) {
  std::vector<double> row;
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    int dot = 0;
    for (int i = 0; i < k.x.width; ++i) dot += q[i] * k.Row(s, head)[i];
    row.push_back(dot * scale);
  }
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double& x : row) sum += x = std::exp(x - largest);
  for (double& x : row) x *= 255 / sum;
  return row;
}

struct Bounded {
  double value = 0, bound = 0;
};

// sum_s round(probs[s]) v[s], with the codes of v `stride` apart. A f32 softmax is right to the share 2^-15 (logits
// below 64 with two roundings of 2^-24, the exponential's) and 2^-24 per term of its sum: nearer to a tie, either code.
Bounded TimesV(const std::vector<double>& probs, const int8_t* v, int64_t stride) {
  const double error = 0x1p-15 + static_cast<double>(probs.size()) * 0x1p-24;
  Bounded sum;
  for (size_t s = 0; s < probs.size(); ++s) {
    const double p = probs[s], code = v[static_cast<int64_t>(s) * stride];
    sum.value += std::nearbyint(p) * code;
    if (std::abs(p - std::floor(p) - 0.5) <= p * error) sum.bound += std::abs(code);
  }
  return sum;
}

}  // namespace

StaticTensor::StaticTensor(HeadsView<const float> dense)
    : x(dense), codes(static_cast<size_t>(x.tokens) * x.heads * x.width) {
  const auto [least, most] = std::minmax_element(x.data, x.data + codes.size());
  scale = ScaleFor(std::max(-*least, *most), Format::kInt8).scale;
}

void StaticTensor::Write(int zero) {
  const size_t row = static_cast<size_t>(x.heads) * x.width;
  ParallelFor(static_cast<size_t>(x.tokens), [&](size_t t, int) {
    for (size_t i = t * row; i < (t + 1) * row; ++i)
      codes[i] = static_cast<int8_t>(CodeOf(x.data[i], 1 / scale, Format::kInt8) + zero);
  });
}

void CheckStaticAttention(const AttentionProblem& p, const char* what, float out_scale, int64_t rows) {
  StaticTensor q(p.q), k(p.k), v(p.v);
  for (StaticTensor* x : {&q, &k, &v}) x->Write();
  const double logit = double{p.scale} * q.scale * k.scale, unit = double{v.scale} / 255;
  const int64_t step = CeilDiv(p.q.tokens, rows);
  for (int64_t t = step - 1; t < p.q.tokens; t += step) {
    const KeyRange keys = p.Keys(t);
    for (int h = 0; h < p.out.heads; ++h) {
      const OutputHead& head = p.heads[h];
      std::vector<Bounded> want(p.out.width);
      for (int map = 0; map < head.Maps(); ++map) {
        const double weight = map == 0 ? 1 : -double{p.lambda.At(t, h)};
        const std::vector<double> probs = Probabilities(q.Row(t, head.Q(map)), k, head.K(map), keys, logit);
        for (int i = 0; i < p.out.width; ++i) {
          const int8_t* column = v.Row(keys.begin, head.v[i / p.v.width]) + i % p.v.width;
          auto [value, bound] = TimesV(probs, column, int64_t{p.v.heads} * p.v.width);
          value *= unit;
          if (out_scale > 0) value = std::clamp(value, -128.0 * out_scale, 127.0 * out_scale);
          want[i].value += weight * value;
          want[i].bound += std::abs(weight) * (bound * unit + out_scale / 2 + 0x1p-20 * std::abs(value));
        }
      }
      for (int i = 0; i < p.out.width; ++i) {
        const double got = p.out.Row(t, h)[i], most = want[i].bound + 0x1p-20 * out_scale;
        if (!(std::abs(got - want[i].value) <= most))
          Fail("{}, row {}, head {}, channel {}: got {}, expected {} within {}; nothing was timed", what, t, h, i, got,
               want[i].value, most);
      }
    }
  }
}

}  // namespace tare
