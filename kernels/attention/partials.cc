// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/partials.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise/rows.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

void MergeRow(const MapPartials& from, const MapPartials& into, int64_t t, int head) {
  const int64_t i = t * into.o.heads + head;
  const float m = std::max(from.max[i], into.max[i]);
  if (m == -std::numeric_limits<float>::infinity()) return;
  const float keep = std::exp(into.max[i] - m), add = std::exp(from.max[i] - m);
  float* o = into.o.Row(t, head);
  ScaleInto(o, keep, into.o.width, o);
  SubtractScaled(o, from.o.Row(t, head), -add, into.o.width);
  into.sum[i] = into.sum[i] * keep + from.sum[i] * add;
  into.max[i] = m;
}

float Inverse(float sum) { return sum > 0 ? 1.0f / sum : 0.0f; }

}  // namespace

void MergePartials(const AttentionProblem& problem, const AttentionPartials& from, const AttentionPartials& into) {
  ParallelFor(static_cast<size_t>(problem.q.tokens), [&](size_t t, int) {
    for (size_t head = 0; head < problem.heads.size(); ++head) {
      for (int map = 0; map < (problem.heads[head].Maps()); ++map)
        MergeRow(from[map], into[map], static_cast<int64_t>(t), static_cast<int>(head));
    }
  });
}

void FinishPartials(const AttentionProblem& problem, const AttentionPartials& partials) {
  ParallelFor(static_cast<size_t>(problem.q.tokens), [&](size_t token, int) {
    const auto t = static_cast<int64_t>(token);
    for (int head = 0; head < std::ssize(problem.heads); ++head) {
      const int64_t i = t * std::ssize(problem.heads) + head;
      float* out = problem.out.Row(t, head);
      ScaleInto(partials[0].o.Row(t, head), Inverse(partials[0].sum[i]), problem.out.width, out);
      if (problem.heads[head].Differential())
        SubtractScaled(out, partials[1].o.Row(t, head), problem.lambda.At(t, head) * Inverse(partials[1].sum[i]),
                       problem.out.width);
    }
  });
}

}  // namespace tare
