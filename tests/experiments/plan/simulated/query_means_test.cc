// SPDX-License-Identifier: Apache-2.0
// Logits of queries less the means of their runs, against the formula in double on what the plan makes of q and k; two
// maps share keys, as in the second differential transformer.
#include "experiments/plan/simulated/query_means.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <random>

#include "experiments/model/layer_attention.h"

namespace tare::query_means_test {
namespace {

constexpr int kTokens = 21, kWidth = 8, kRun = 8;
constexpr float kScale = 0.4f, kLambda = 0.5f;

using Rows = std::vector<std::vector<double>>;

// What a plan makes of q [2 heads], k [1 head] and their logits, by head.
struct Seen : SiteVisitor {
  std::vector<float> q, k, v, out;
  std::map<std::pair<Site, int>, Rows> rows;
  std::mutex mutex;

  explicit Seen(const std::string& plan, int tokens = kTokens, Mask mask = {}) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(1.0f, 2.0f);
    const auto fill = [&](std::vector<float>& x, int heads) {
      x.resize(static_cast<size_t>(tokens * heads * kWidth));
      for (float& value : x) value = normal(random);
    };
    fill(q, 2), fill(k, 1), fill(v, 1), fill(out, 1);
    const std::vector<OutputHead> table{{.q1 = 0, .k1 = 0, .q2 = 1, .k2 = 0}};
    const AttentionProblem problem{.q = DenseHeads<const float>(q.data(), tokens, 2, kWidth),
                                   .k = DenseHeads<const float>(k.data(), tokens, 1, kWidth),
                                   .v = DenseHeads<const float>(v.data(), tokens, 1, kWidth),
                                   .heads = table,
                                   .lambda = {.data = &kLambda},
                                   .mask = mask,
                                   .scale = kScale,
                                   .out = DenseHeads(out.data(), tokens, 1, kWidth)};
    SimulatedAttention run(Plan::Parse(plan), AttentionSites(problem, {0}));
    const std::vector<AttentionSequence> sequences{{.index = 0, .first_row = 0, .prefix = tokens, .branches = {}}};
    SiteVisitor* self[] = {this};
    run.Run(problem, sequences, 0, self);
  }

  bool Wants(Site site, std::optional<int>) const override {
    return site == Site::kQ || site == Site::kK || site == Site::kAttnLogits;
  }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex);
    for (int64_t r = 0; r < block.rows; ++r) {
      std::vector<double> row(static_cast<size_t>(block.First(r)), NAN);
      row.insert(row.end(), block.Row(r).begin(), block.Row(r).end());
      Rows& of_head = rows[{block.site, *block.head}];
      of_head.resize(q.size() / 2 / kWidth);
      of_head[static_cast<size_t>(block.first_row + r)] = row;
    }
  }

  double Mean(int head, size_t token, size_t channel) const {
    double sum = 0;
    const size_t first = token / kRun * kRun;
    for (size_t t = first; t < std::min(first + kRun, q.size() / 2 / kWidth); ++t)
      sum += q[(t * 2 + static_cast<size_t>(head)) * kWidth + channel];
    return sum / kRun;
  }
  // The logit, with the run's mean times the keys before rounding.
  double Logit(int head, size_t token, size_t key, bool smooth) const {
    double sum = 0;
    for (size_t c = 0; c < kWidth; ++c) {
      sum += rows.at({Site::kQ, head})[token][c] * rows.at({Site::kK, 0})[key][c];
      if (smooth) sum += Mean(head, token, c) * k[key * kWidth + c];
    }
    return sum * kScale;
  }
};

// f32 keeps 2^-24 of each of some twenty terms, of at most 100.
void ExpectLogits(const Seen& seen, bool smooth1 = true, bool smooth2 = true) {
  for (int head = 0; head < 2; ++head) {
    const Rows& logits = seen.rows.at({Site::kAttnLogits, head});
    for (size_t t = 0; t < logits.size(); ++t) {
      for (size_t key = 0; key < logits[t].size(); ++key) {
        if (std::isnan(logits[t][key])) continue;
        EXPECT_NEAR(logits[t][key], seen.Logit(head, t, key, head == 0 ? smooth1 : smooth2), 2e-4) << t << ' ' << key;
      }
    }
  }
}

TEST(QueryMeans, LogitsOfUnroundedMeans) {
  for (const char* plan : {"q=int4/token+smooth8,k=int4/token", "q=nvfp4:t1+smooth8,k=nvfp4:t1+smoothall",
                           "q=int4/token+smooth8+hadamard,k=int4/token+hadamard", "q=int4/head+smooth8,k=int4/head",
                           "q=int8/tensor+zero+smooth8,k=int8/tensor+zero", "q=nvfp4+smooth8"}) {
    SCOPED_TRACE(plan);
    ExpectLogits(Seen(plan));
  }
  ExpectLogits(Seen("q[m2]=int4/token+smooth8,q[m1]=int4/token"), false, true);
  ExpectLogits(Seen("q=int4/token+smooth8", kTokens, {.kind = Mask::Kind::kFull}));
  ExpectLogits(Seen("q=int4/token+smooth8", kTokens, {.kind = Mask::Kind::kWindow, .window = 5}));
  ExpectLogits(Seen("q=int4/token+smooth8", 1));
  ExpectLogits(Seen("q=int4/token+smooth8", 150));  // blocks of 64 rows
}

// What is rounded is what is left of the mean: a run of equal queries, but for the last one's zeros, has nothing left.
TEST(QueryMeans, QueriesAreRoundedWithoutTheirMean) {
  const Seen seen("q=int4/token+smooth8");
  for (int head = 0; head < 2; ++head) {
    for (size_t t = 0; t < kTokens; ++t) {
      double absmax = 0;
      const auto left = [&](size_t c) {
        return seen.q[(t * 2 + static_cast<size_t>(head)) * kWidth + c] - seen.Mean(head, t, c);
      };
      for (size_t c = 0; c < kWidth; ++c) absmax = std::max(absmax, std::fabs(left(c)));
      for (size_t c = 0; c < kWidth; ++c)
        EXPECT_NEAR(seen.rows.at({Site::kQ, head})[t][c], left(c), absmax / 14 * 1.001) << t << ' ' << c;
    }
  }
}

// A scale of all logits of a head is that of the sums.
TEST(QueryMeans, LogitsAreRoundedWithTheProducts) {
  const Seen exact("q=int4/token+smooth8"), rounded("q=int4/token+smooth8,attn_logits=int8/head");
  for (int head = 0; head < 2; ++head) {
    const Rows &before = exact.rows.at({Site::kAttnLogits, head}), &after = rounded.rows.at({Site::kAttnLogits, head});
    double absmax = 0;
    for (const auto& row : before) {
      for (const double x : row) absmax = std::max(absmax, std::fabs(x));
    }
    double largest = 0;
    for (size_t t = 0; t < before.size(); ++t) {
      for (size_t key = 0; key < before[t].size(); ++key) {
        EXPECT_NEAR(after[t][key], before[t][key], absmax / 254 * 1.001);
        largest = std::max(largest, std::fabs(after[t][key]));
      }
    }
    EXPECT_NEAR(largest, absmax, 1e-5 * absmax);
  }
}

}  // namespace
}  // namespace tare::query_means_test
