// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/heads.h"

#include <cmath>
#include <numeric>

namespace tare {
namespace {

// Softmax, or the problem's weights, over the visible keys; [keys.end - keys.begin], empty where nothing is seen.
std::vector<double> MapRow(const AttentionProblem& problem, int64_t t, size_t h, int map, KeyRange keys) {
  const int q = problem.heads[h].Q(map), k = problem.heads[h].K(map);
  std::vector<double> row;
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    double logit = 0;
    for (int i = 0; i < problem.q.width; ++i) logit += double{problem.q.At(t, q, i)} * problem.k.At(s, k, i);
    const double scaled = logit * problem.scale, cap = problem.softcap;
    row.push_back(cap == 0 ? scaled : cap * std::tanh(scaled / cap));
  }
  if (row.empty()) return WriteLse(problem, t, static_cast<int64_t>(h), map, 0), row;
  if (problem.weights == RowWeights::kThreshold) {
    const double tau = problem.beta * std::sqrt(2 * std::log(std::ssize(row)) / problem.q.width);
    for (double& x : row) x = std::pow(std::max(x - tau, 0.0), 2);
    return row;
  }
  if (problem.weights == RowWeights::kSoftpick) {
    const double largest = std::max(0.0, *std::ranges::max_element(row));
    double sum = kSoftpickEpsilon;
    for (double& x : row) sum += std::abs(x = std::exp(x - largest) - std::exp(-largest));
    for (double& x : row) x = std::max(x, 0.0) / sum;
    return row;
  }
  const double sink = problem.Sink(q), largest = std::max(sink, *std::ranges::max_element(row));
  double sum = std::exp(sink - largest);
  for (double& x : row) sum += x = std::exp(x - largest);
  for (double& x : row) x /= sum;
  WriteLse(problem, t, static_cast<int64_t>(h), map, largest + std::log(sum));
  return row;
}

// P2, or P2 - G, which has keys from the first on.
std::vector<double> SecondRow(const AttentionProblem& problem, int64_t t, size_t h, KeyRange keys) {
  std::vector<double> row = MapRow(problem, t, h, 1, keys);
  if (problem.integral == Integral::kNone) return row;
  const bool all = problem.integral == Integral::kAll;
  const int64_t queries = all ? problem.q.tokens : t + 1;
  if (all) row.resize(static_cast<size_t>(problem.k.tokens));
  for (int64_t n = 0; n < queries; ++n) {
    const std::vector<double> first = MapRow(problem, n, h, 0, problem.Keys(n));
    for (size_t s = 0; s < first.size(); ++s) row[s] -= first[s] / static_cast<double>(queries);
  }
  return row;
}

// sum_s row[s] v[begin + s], slices side by side: [out.width]
std::vector<double> TimesV(const AttentionProblem& problem, const OutputHead& head, const std::vector<double>& row,
                           int64_t begin) {
  std::vector<double> out(problem.out.width);
  for (int slice = 0; slice < head.VSlices(); ++slice) {
    for (int64_t s = 0; s < std::ssize(row); ++s) {
      for (int i = 0; i < problem.v.width; ++i)
        out[slice * problem.v.width + i] += row[s] * problem.v.At(begin + s, head.v[slice], i);
    }
  }
  return out;
}

double Norm(const std::vector<double>& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

// Calls visit(P1 V, lambda, P2 V), of DINT (P2 - G) V, for each token's output heads, the last empty for one map.
template <typename Visit>
void ForEachRow(const AttentionProblem& problem, Visit visit) {
  CheckProblem(problem);
  for (int64_t t = 0; t < problem.q.tokens; ++t) {
    const KeyRange keys = problem.Keys(t);
    for (size_t h = 0; h < problem.heads.size(); ++h) {
      const OutputHead& head = problem.heads[h];
      const std::vector<double> first = TimesV(problem, head, MapRow(problem, t, h, 0, keys), keys.begin);
      if (!head.Differential()) {
        visit(first, 0.0, std::vector<double>());
        continue;
      }
      visit(first, double{problem.lambda.At(t, h)}, TimesV(problem, head, SecondRow(problem, t, h, keys), keys.begin));
    }
  }
}

}  // namespace

std::vector<double> ReferenceAttentionDouble(const AttentionProblem& problem) {
  std::vector<double> out;
  ForEachRow(problem, [&](const auto& first, double lambda, const auto& second) {
    for (size_t i = 0; i < first.size(); ++i) out.push_back(second.empty() ? first[i] : first[i] - lambda * second[i]);
  });
  return out;
}

std::vector<double> ReferenceMagnitudes(const AttentionProblem& problem) {
  std::vector<double> out;
  ForEachRow(problem, [&](const auto& first, double lambda, const auto& second) {
    out.push_back(Norm(first) + std::abs(lambda) * Norm(second));
  });
  return out;
}

}  // namespace tare
