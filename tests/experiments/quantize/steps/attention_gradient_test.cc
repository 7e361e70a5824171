// SPDX-License-Identifier: Apache-2.0
// Against a reference in double that writes out every row's Jacobian, which is itself held to differences of the
// reference of attention. Error of one value: it is a sum of up to S (keys) or T (queries) products of f32 values, each
// off by what d and S products before it leave; relative to the sum of its terms' sizes (8 d + 4 S) 2^-24.
#include "experiments/quantize/steps/autoround.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/attention/heads.h"
#include "quant/base/parallel.h"
#include "tests/support/random_quantized.h"

namespace tare::attention_gradient_test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

struct HeadsOf {
  const char* name;
  std::vector<OutputHead> heads;
  int q, k, v;
};

std::vector<HeadsOf> AllHeads() {
  return {{"standard", StandardHeads(4, 2), 4, 2, 2},
          {"diffllama", DiffLlamaHeads(4, 2), 4, 2, 2},
          {"V1", GroupedHeads(4, 2, 4), 4, 4, 4},
          {"V2", V2Heads(2, 1), 4, 1, 1}};
}

// A value and the sum of the sizes of its terms.
struct Sum {
  double value = 0, size = 0;
  void Add(double x, double of) { value += x, size += of; }
};

// The gradients of one sequence of T tokens.
struct Reference {
  std::vector<Sum> q, k, v, lambda;
};

struct Inputs {
  Inputs(const HeadsOf& table, int64_t tokens, int width, unsigned seed)
      : t(table),
        T(tokens),
        d(width),
        wide(table.heads.front().VSlices() * width),
        q(RandomNormal(static_cast<size_t>(T * t.q * d), seed)),
        k(RandomNormal(static_cast<size_t>(T * t.k * d), seed + 1)),
        v(RandomNormal(static_cast<size_t>(T * t.v * d), seed + 2)),
        lambda(RandomNormal(static_cast<size_t>(T * std::ssize(t.heads)), seed + 3)),
        d_out(RandomNormal(static_cast<size_t>(T * std::ssize(t.heads) * wide), seed + 4)),
        out(d_out.size()) {
    for (float& x : q) x *= 2;  // maps that are not flat
  }

  AttentionProblem Problem() {
    const auto heads = static_cast<int>(t.heads.size());
    return {.q = DenseHeads<const float>(q.data(), T, t.q, d),
            .k = DenseHeads<const float>(k.data(), T, t.k, d),
            .v = DenseHeads<const float>(v.data(), T, t.v, d),
            .heads = t.heads,
            .lambda = {.data = lambda.data(), .token_stride = heads, .head_stride = 1},
            .mask = mask,
            .scale = 1.0f / std::sqrt(static_cast<float>(d)),
            .sinks = sinks,
            .out = DenseHeads(out.data(), T, heads, wide)};
  }

  const HeadsOf& t;
  int64_t T;
  int d, wide;
  std::vector<float> q, k, v, lambda, d_out, out, sinks;
  Mask mask;
};

// d loss / d p[s] of a row, for each key that it sees, less lambda's factor.
std::vector<double> OfValues(const Inputs& in, const OutputHead& row, int64_t t, int64_t head, KeyRange keys) {
  std::vector<double> g;
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    double sum = 0;
    for (int c = 0; c < in.wide; ++c)
      sum += double{in.d_out[(t * std::ssize(in.t.heads) + head) * in.wide + c]} *
             double{in.v[(s * in.t.v + row.v[c / in.d]) * in.d + c % in.d]};
    g.push_back(sum);
  }
  return g;
}

std::vector<double> Probabilities(const Inputs& in, const AttentionProblem& p, int q_head, int k_head, int64_t t,
                                  KeyRange keys) {
  std::vector<double> x;
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    double sum = 0;
    for (int c = 0; c < in.d; ++c)
      sum += double{in.q[(t * in.t.q + q_head) * in.d + c]} * double{in.k[(s * in.t.k + k_head) * in.d + c]};
    x.push_back(sum * double{p.scale});
  }
  double most = double{p.Sink(q_head)};
  for (const double one : x) most = std::max(most, one);
  double all = std::exp(double{p.Sink(q_head)} - most);
  for (double& one : x) all += one = std::exp(one - most);
  for (double& one : x) one /= all;
  return x;
}

Reference ReferenceGradient(Inputs& in) {
  const AttentionProblem p = in.Problem();
  Reference r{.q = std::vector<Sum>(in.q.size()),
              .k = std::vector<Sum>(in.k.size()),
              .v = std::vector<Sum>(in.v.size()),
              .lambda = std::vector<Sum>(in.lambda.size())};
  for (int64_t t = 0; t < in.T; ++t) {
    for (int64_t head = 0; head < std::ssize(in.t.heads); ++head) {
      const OutputHead& row = in.t.heads[static_cast<size_t>(head)];
      const KeyRange keys = in.mask.Keys(t, in.T, in.T);
      const std::vector<double> g = OfValues(in, row, t, head, keys);
      for (int m = 0; m < row.Maps(); ++m) {
        const std::vector<double> probs = Probabilities(in, p, row.Q(m), row.K(m), t, keys);
        const double factor = m == 0 ? 1 : -double{p.lambda.At(t, head)};
        double mean = 0, mean_size = 0;  // of g
        for (size_t j = 0; j < probs.size(); ++j) mean += probs[j] * g[j], mean_size += probs[j] * std::abs(g[j]);
        for (size_t s = 0; s < probs.size(); ++s) {
          const auto key = keys.begin + static_cast<int64_t>(s);
          if (m == 1) r.lambda[t * std::ssize(in.t.heads) + head].Add(-probs[s] * g[s], probs[s] * std::abs(g[s]));
          const double dx = probs[s] * factor * (g[s] - mean),
                       size = probs[s] * std::abs(factor) * (std::abs(g[s]) + mean_size);
          for (int c = 0; c < in.d; ++c) {
            const size_t at_q = static_cast<size_t>((t * in.t.q + row.Q(m)) * in.d + c),
                         at_k = static_cast<size_t>((key * in.t.k + row.K(m)) * in.d + c);
            const double q = double{in.q[at_q]} * double{p.scale}, k = double{in.k[at_k]} * double{p.scale};
            r.q[at_q].Add(dx * k, size * std::abs(k));
            r.k[at_k].Add(dx * q, size * std::abs(q));
          }
          for (int c = 0; c < in.wide; ++c) {
            const double by = factor * double{in.d_out[(t * std::ssize(in.t.heads) + head) * in.wide + c]};
            r.v[static_cast<size_t>((key * in.t.v + row.v[c / in.d]) * in.d + c % in.d)].Add(probs[s] * by,
                                                                                             probs[s] * std::abs(by));
          }
        }
      }
    }
  }
  return r;
}

struct Gradients {
  explicit Gradients(Inputs& in, std::span<const AttentionSequence> sequences)
      : q(in.q.size(), 7), k(in.k.size(), 7), v(in.v.size(), 7), lambda(in.lambda.size()) {
    const AttentionProblem problem = in.Problem();
    AttentionGradient(problem, sequences,
                      {.out = DenseHeads<const float>(in.d_out.data(), in.T, problem.out.heads, in.wide),
                       .q = DenseHeads(q.data(), in.T, in.t.q, in.d),
                       .k = DenseHeads(k.data(), in.T, in.t.k, in.d),
                       .v = DenseHeads(v.data(), in.T, in.t.v, in.d),
                       .lambda = lambda.data()});
  }
  std::vector<float> q, k, v, lambda;
};

void ExpectNear(const std::vector<float>& got, const std::vector<Sum>& expected, double unit, const char* what) {
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i].value, unit * expected[i].size + 1e-30) << what << " " << i;
}

void ExpectReference(Inputs& in) {
  const AttentionSequence one{.prefix = in.T};
  const Gradients got(in, {&one, 1});
  const Reference expected = ReferenceGradient(in);
  const double unit = (8.0 * in.d + 4.0 * static_cast<double>(in.T)) * 0x1p-24;
  ExpectNear(got.q, expected.q, unit, "q");
  ExpectNear(got.k, expected.k, unit, "k");
  ExpectNear(got.v, expected.v, unit, "v");
  if (in.t.heads.front().Differential()) ExpectNear(got.lambda, expected.lambda, unit, "lambda");
}

TEST(AttentionGradient, GroupsShareNothing) {
  EXPECT_THAT(GroupsThatShare(StandardHeads(4, 2)), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(GroupsThatShare(V2Heads(4, 2)), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(GroupsThatShare(GroupedHeads(4, 2, 4)), ElementsAre(ElementsAre(0), ElementsAre(1)));
  // By keys, by queries, by a second slice of values; the third and the last head join two groups each.
  const std::vector<OutputHead> heads{{.q1 = 0, .k1 = 0, .v = {0, 1}},
                                      {.q1 = 1, .k1 = 1, .v = {2, 3}},
                                      {.q1 = 2, .k1 = 0, .q2 = 3, .k2 = 1, .v = {4, 5}},
                                      {.q1 = 4, .k1 = 4, .v = {6, 7}},
                                      {.q1 = 5, .k1 = 5, .v = {7, kNoMap}},
                                      {.q1 = 6, .k1 = 6, .v = {8, kNoMap}},
                                      {.q1 = 6, .k1 = 7, .v = {3, kNoMap}}};
  EXPECT_THAT(GroupsThatShare(heads), ElementsAre(ElementsAre(3, 4), UnorderedElementsAre(0, 1, 2, 5, 6)));
}

TEST(AttentionGradient, EveryTableLengthAndMask) {
  for (const HeadsOf& t : AllHeads()) {
    for (const int64_t T : {1, 2, 63, 64, 65, 150}) {
      SCOPED_TRACE(testing::Message() << t.name << " T " << T);
      Inputs in(t, T, 8, 1);
      ExpectReference(in);
      if (T < 64) continue;
      in.mask = {Mask::Kind::kWindow, 10};
      ExpectReference(in);
      in.mask = {Mask::Kind::kFull};
      in.sinks = RandomNormal(static_cast<size_t>(t.q), 3);
      ExpectReference(in);
    }
  }
}

TEST(AttentionGradient, NothingAttendsToMoreThanItself) {  // one key has a probability of 1, whatever its logit
  const std::vector<HeadsOf> all = AllHeads();
  Inputs in(all.front(), 1, 8, 5);
  const AttentionSequence one{.prefix = 1};
  const Gradients got(in, {&one, 1});
  for (const float x : got.q) EXPECT_NEAR(x, 0, 1e-6);
}

// Along a direction, a difference in double of the reference's outputs times d_out: off by the third derivative, with
// steps of 2^-6 below a thousandth of what it is.
TEST(AttentionGradient, TheReferenceIsHeldToDifferencesOfAttention) {
  for (const HeadsOf& t : AllHeads()) {
    SCOPED_TRACE(t.name);
    Inputs in(t, 20, 8, 9);
    const Reference gradient = ReferenceGradient(in);
    const auto loss = [&] {
      const std::vector<double> out = ReferenceAttentionDouble(in.Problem());
      return std::inner_product(out.begin(), out.end(), in.d_out.begin(), 0.0);
    };
    const auto check = [&](std::vector<float>& values, const std::vector<Sum>& of) {
      const std::vector<float> at = values, along = RandomNormal(values.size(), 11);
      double expected = 0, size = 0;
      const auto move = [&](float by) {
        for (size_t i = 0; i < values.size(); ++i) values[i] = at[i] + by * along[i];
      };
      move(0x1p-6f);
      const std::vector<float> above = values;
      const double high = loss();
      move(-0x1p-6f);
      const double low = loss();
      for (size_t i = 0; i < values.size(); ++i) {
        const double step = double{above[i]} - double{values[i]};
        expected += of[i].value * step;
        size += of[i].value * of[i].value * step * step;
      }
      values = at;
      EXPECT_NEAR(high - low, expected, 3e-3 * std::sqrt(size));
    };
    check(in.q, gradient.q);
    check(in.k, gradient.k);
    check(in.v, gradient.v);
    if (t.heads.front().Differential()) check(in.lambda, gradient.lambda);
  }
}

TEST(AttentionGradient, SequencesOfABatchAreApartAndThreadsDoNotShow) {
  for (const HeadsOf& t : AllHeads()) {
    SCOPED_TRACE(t.name);
    Inputs in(t, 100, 8, 21);
    const AttentionSequence both[] = {{.first_row = 0, .prefix = 70}, {.first_row = 70, .prefix = 30}};
    SetThreads(1);
    const Gradients one(in, both);
    SetThreads(3);
    const Gradients three(in, both);
    SetThreads(0);
    EXPECT_EQ(one.q, three.q);
    EXPECT_EQ(one.k, three.k);
    EXPECT_EQ(one.v, three.v);
    EXPECT_EQ(one.lambda, three.lambda);
    const Gradients alone(in, {both, 1});
    EXPECT_TRUE(std::equal(alone.k.begin(), alone.k.begin() + 70 * t.k * 8, one.k.begin()));
    EXPECT_EQ(alone.k.back(), 7) << "rows of no sequence stay as they are";
  }
}

}  // namespace
}  // namespace tare::attention_gradient_test
