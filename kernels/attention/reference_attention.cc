// SPDX-License-Identifier: Apache-2.0
// See reference_attention.h.
#include "kernels/attention/reference_attention.h"

#include <algorithm>
#include <cmath>

namespace tare {
namespace {

// Softmax over the visible keys; [keys.end - keys.begin], empty where nothing is seen.
std::vector<double> MapRow(const AttentionProblem& p, int64_t t, int q, int k, KeyRange keys) {
  std::vector<double> row;
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    double logit = 0;
    for (int i = 0; i < p.q.width; ++i) logit += double{p.q.Row(t, q)[i]} * p.k.Row(s, k)[i];
    row.push_back(logit * p.scale);
  }
  if (row.empty()) return row;
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double& x : row) sum += x = std::exp(x - largest);
  for (double& x : row) x /= sum;
  return row;
}

// sum_s row[s] v[s], slices side by side: [out.width]
std::vector<double> TimesV(const AttentionProblem& p, const OutputHead& head, const std::vector<double>& row,
                           KeyRange keys) {
  std::vector<double> out(p.out.width);
  for (int slice = 0; slice < head.VSlices(); ++slice) {
    for (int64_t s = keys.begin; s < keys.end; ++s) {
      for (int i = 0; i < p.v.width; ++i)
        out[slice * p.v.width + i] += row[s - keys.begin] * p.v.Row(s, head.v[slice])[i];
    }
  }
  return out;
}

double Norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

// Calls visit(t, h, P1 V, lambda, P2 V), the last empty for one map.
template <typename Visit>
void ForEachRow(const AttentionProblem& p, Visit visit) {
  CheckProblem(p);
  for (int64_t t = 0; t < p.q.tokens; ++t) {
    const KeyRange keys = p.mask.Keys(t, p.q.tokens, p.k.tokens);
    for (size_t h = 0; h < p.heads.size(); ++h) {
      const OutputHead& head = p.heads[h];
      const std::vector<double> first = TimesV(p, head, MapRow(p, t, head.q1, head.k1, keys), keys);
      if (!head.Differential()) {
        visit(t, h, first, 0.0, std::vector<double>());
      } else {
        visit(t, h, first, double{p.lambda.At(t, h)}, TimesV(p, head, MapRow(p, t, head.q2, head.k2, keys), keys));
      }
    }
  }
}

}  // namespace

std::vector<double> ReferenceAttentionDouble(const AttentionProblem& p) {
  std::vector<double> out;
  ForEachRow(p,
             [&](int64_t, size_t, const std::vector<double>& first, double lambda, const std::vector<double>& second) {
               for (size_t i = 0; i < first.size(); ++i)
                 out.push_back(second.empty() ? first[i] : first[i] - lambda * second[i]);
             });
  return out;
}

std::vector<double> ReferenceMagnitudes(const AttentionProblem& p) {
  std::vector<double> out;
  ForEachRow(p,
             [&](int64_t, size_t, const std::vector<double>& first, double lambda, const std::vector<double>& second) {
               out.push_back(Norm(first) + std::abs(lambda) * Norm(second));
             });
  return out;
}

void ReferenceAttention(const AttentionProblem& p) {
  const std::vector<double> values = ReferenceAttentionDouble(p);
  for (int64_t t = 0; t < p.q.tokens; ++t) {
    for (int h = 0; h < p.out.heads; ++h) {
      const double* row = values.data() + (t * p.out.heads + h) * p.out.width;
      std::transform(row, row + p.out.width, p.out.Row(t, h), [](double x) { return static_cast<float>(x); });
    }
  }
}

}  // namespace tare
