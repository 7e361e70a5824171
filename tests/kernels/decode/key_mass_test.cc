// SPDX-License-Identifier: Apache-2.0
// Against softmaxes in double of the cache's keys as they are read. Beside int4 queries are off by half a 16256th of
// their largest value, some 3 here, and so is a logit by 16 keys' magnitudes of 0.8, times 1/4, of that: 3e-4 where all
// errors add up, and a probability by that part of itself, in both directions.
#include "kernels/decode/decode_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/random_decode.h"

namespace tare::key_mass_test {
namespace {

// P [tokens] of query t, query head over key head.
std::vector<double> Softmax(const RandomDecode& c, int64_t t, int q_head, int k_head) {
  const int64_t tokens = c.cache.tokens(), seen = tokens - c.tensors.problem.q.tokens + t + 1;
  std::vector<float> key(static_cast<size_t>(c.cache.shape().k_width));
  std::vector<double> p(static_cast<size_t>(tokens), 0.0);
  double sum = 0;
  for (int64_t i = 0; i < seen; ++i) {
    c.cache.ReadKey(i, k_head, key.data());
    double logit = 0;
    for (size_t d = 0; d < key.size(); ++d) logit += double{c.tensors.problem.q.Row(t, q_head)[d]} * key[d];
    sum += p[i] = std::exp(logit * c.table.scale());
  }
  for (double& x : p) x /= sum;
  return p;
}

// By output heads: of maps, those that several heads share count once.
std::vector<double> Expected(const RandomDecode& c, const DecodeHeads::Group& group, KeyMass of) {
  std::vector<double> mass(static_cast<size_t>(c.cache.tokens()), 0.0);
  for (int64_t t = 0; t < c.tensors.problem.q.tokens; ++t) {
    if (of == KeyMass::kMaps) {
      for (const DecodeHeads::Row& row : group.rows) {
        const std::vector<double> p = Softmax(c, t, row.q, row.k);
        for (size_t i = 0; i < p.size(); ++i) mass[i] += p[i];
      }
      continue;
    }
    for (size_t h = 0; h < c.tensors.heads.size(); ++h) {
      const OutputHead& head = c.tensors.heads[h];
      if (std::ranges::none_of(group.differences, [&](const auto& d) { return d.head == static_cast<int>(h); }))
        continue;
      std::vector<double> p = Softmax(c, t, head.q1, head.k1);
      if (head.Differential()) {
        const std::vector<double> second = Softmax(c, t, head.q2, head.k2);
        const double lambda = c.tensors.problem.lambda.At(t, static_cast<int>(h));
        for (size_t i = 0; i < p.size(); ++i) p[i] -= lambda * second[i];
      }
      for (size_t i = 0; i < p.size(); ++i) mass[i] += std::abs(p[i]);
    }
  }
  return mass;
}

TEST(KeyMass, IsTheSumOfProbabilities) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2}) {
    for (const int64_t keys : {1, 64, 150}) {
      for (const CacheRule& rule :
           {CacheRule{}, CacheRule{Format::kInt4}, CacheRule{Format::kNvFp4, {Granularity::Kind::kGroup, 16}}}) {
        const int64_t queries = std::min<int64_t>(keys, 3);
        const RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = queries, .keys = keys},
                             {.k = rule, .v = rule, .last = 10});
        for (const KeyMass of : {KeyMass::kMaps, KeyMass::kDifference}) {
          std::vector<std::vector<float>> mass(c.table.groups().size(), std::vector<float>(keys, 1.0f));
          AddKeyMass(of, c.table, c.sequence(), mass);
          for (size_t g = 0; g < mass.size(); ++g) {
            const std::vector<double> expected = Expected(c, c.table.groups()[g], of);
            for (int64_t i = 0; i < keys; ++i)
              ASSERT_NEAR(mass[g][i], 1 + expected[i],
                          (rule.format == Format::kInt4 ? 6e-4 : 2e-4) * expected[i] + 1e-6)
                  << "family " << static_cast<int>(family) << ", key " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tare::key_mass_test
