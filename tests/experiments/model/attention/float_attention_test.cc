// SPDX-License-Identifier: Apache-2.0
// The model's f32 attention against the double reference: every head table, lengths around the block sizes, branches,
// and what visitors see. Error of one output: the logits are off by about d half units of |q||k|, which the softmax
// turns into a relative error, and S products are summed; with values of order 1 that is below (4 d + S) 2^-24 max|v|.
#include "experiments/model/attention/float_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <random>

#include "quant/base/message.h"
#include "tests/support/normal_floats.h"
#include "tests/support/whole_references.h"

namespace tare::float_attention_test {
namespace {

struct Table {
  const char* name;
  std::vector<OutputHead> heads;
  int q, k, v, slices;
};

std::vector<Table> Tables() {
  return {{"standard", StandardHeads(4, 4), 4, 4, 4, 1},
          {"standard gqa", StandardHeads(4, 2), 4, 2, 2, 1},
          {"diffllama", DiffLlamaHeads(4, 4), 4, 4, 4, 2},
          {"diffllama gqa", DiffLlamaHeads(8, 4), 8, 4, 4, 2},
          {"V2", V2Heads(2, 1), 4, 1, 1, 1}};
}

struct Data {
  Data(const Table& t, int64_t rows, int d, unsigned seed)
      : q(rows * t.q * d),
        k(rows * t.k * d),
        v(rows * t.v * d),
        out(rows * static_cast<int64_t>(t.heads.size()) * t.slices * d),
        lambda(rows) {
    std::mt19937 random(seed);
    NormalFloats normal;
    for (auto* values : {&q, &k, &v, &lambda}) {
      for (float& x : *values) x = normal(random);
    }
    call.problem = {.q = DenseHeads<const float>(q.data(), rows, t.q, d),
                    .k = DenseHeads<const float>(k.data(), rows, t.k, d),
                    .v = DenseHeads<const float>(v.data(), rows, t.v, d),
                    .heads = t.heads,
                    .lambda = {.data = lambda.data(), .token_stride = 1},
                    .scale = 1.0f / std::sqrt(static_cast<float>(d)),
                    .out = DenseHeads(out.data(), rows, static_cast<int>(t.heads.size()), t.slices * d)};
  }
  std::vector<float> q, k, v, out, lambda;
  FloatAttentionCall call;
};

template <typename T>
HeadsView<T> RowsOf(HeadsView<T> view, int64_t first, int64_t count) {
  view.data += first * view.token_stride;
  view.tokens = count;
  return view;
}

// Rows [first, first + count) of the data as a sequence of its own; keys come from prefix rows and then from these.
void ExpectReference(const Data& data, const Table& t, int64_t prefix_row, int64_t prefix, int64_t first, int64_t count,
                     int d) {
  // The keys of a branch, gathered.
  const auto gather = [&](const std::vector<float>& values, int heads) {
    const int64_t width = int64_t{heads} * d;
    std::vector<float> g(values.begin() + prefix_row * width, values.begin() + (prefix_row + prefix) * width);
    g.insert(g.end(), values.begin() + first * width, values.begin() + (first + count) * width);
    return g;
  };
  const std::vector<float> k = gather(data.k, t.k), v = gather(data.v, t.v);
  std::vector<float> out(count * data.call.problem.out.token_stride);
  AttentionProblem p{.q = RowsOf(data.call.problem.q, first, count),
                     .k = DenseHeads<const float>(k.data(), prefix + count, t.k, d),
                     .v = DenseHeads<const float>(v.data(), prefix + count, t.v, d),
                     .heads = t.heads,
                     .lambda = {.data = data.lambda.data() + first, .token_stride = 1},
                     .mask = data.call.problem.mask,
                     .scale = data.call.problem.scale,
                     .weights = data.call.problem.weights,
                     .integral = data.call.problem.integral,
                     .beta = data.call.problem.beta,
                     .out = DenseHeads(out.data(), count, static_cast<int>(t.heads.size()), t.slices * d)};
  ReferenceAttention(p);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < data.call.problem.out.token_stride; ++c) {
      const double lambda = std::abs(data.lambda[first + i]);
      // 4.5: the largest |v| of these normal values
      const double bound = (4.0 * d + static_cast<double>(prefix + count)) * 0x1p-24 * 4.5 * (1 + lambda);
      ASSERT_NEAR(data.out[(first + i) * data.call.problem.out.token_stride + c],
                  out[i * data.call.problem.out.token_stride + c], bound)
          << "row " << i << " column " << c;
    }
  }
}

TEST(FloatAttentionTest, EveryTableAndLength) {
  for (const Table& t : Tables()) {
    for (const int64_t T : {1, 2, 15, 16, 63, 64, 65, 130, 600}) {
      for (const int d : {8, 32}) {
        if (T == 600 && d == 32) continue;  // the reference's time, which has nothing to show that 130 has not
        SCOPED_TRACE(testing::Message() << t.name << " T " << T << " d " << d);
        Data data(t, T, d, 1);
        const AttentionSequence sequence{.prefix = T};
        data.call.sequences = {&sequence, 1};
        FloatAttention(data.call);
        ExpectReference(data, t, 0, 0, 0, T, d);
      }
    }
  }
}

// Within softmax's bound: a numerator and the sum are off by the same parts of exp(max x), and where all logits are so
// near 0 that their sum is much less than that, these normal queries and keys have few.
TEST(FloatAttentionTest, Softpick) {
  for (const Table& t : Tables()) {
    for (const int64_t T : {1, 2, 63, 64, 65, 130, 300}) {
      SCOPED_TRACE(testing::Message() << t.name << " T " << T);
      Data data(t, T, 8, 3);
      const AttentionSequence sequence{.prefix = T};
      data.call.sequences = {&sequence, 1};
      data.call.problem.weights = RowWeights::kSoftpick;
      FloatAttention(data.call);
      ExpectReference(data, t, 0, 0, 0, T, 8);
    }
  }
}

// A threshold's entries are squares of numbers below 4.5^2 d scale, here of both signs, beside softmax's below 1.
TEST(FloatAttentionTest, ThresholdAndIntegrals) {
  for (const Table& t : Tables()) {
    for (const Variant& variant : std::span(kVariants).subspan(2)) {
      for (const int64_t T : {1, 15, 64, 65, 130}) {
        SCOPED_TRACE(testing::Message() << t.name << " " << variant.name << " T " << T);
        Data data(t, T, 8, 5);
        if (variant.integral != Integral::kNone && !t.heads.front().Differential()) continue;
        const AttentionSequence sequence{.prefix = T};
        data.call.sequences = {&sequence, 1};
        data.call.problem.weights = variant.weights, data.call.problem.integral = variant.integral;
        if (variant.weights == RowWeights::kThreshold) data.call.problem.scale /= 16, data.call.problem.beta = 0.1f;
        FloatAttention(data.call);
        ExpectReference(data, t, 0, 0, 0, T, 8);
      }
    }
  }
}

TEST(FloatAttentionTest, BranchesContinueTheirPrefix) {
  for (const Table& t : Tables()) {
    SCOPED_TRACE(t.name);
    const int d = 16;
    Data data(t, 5 + 70 + 3 + 65 + 1 + 40, d, 2);
    const AttentionSequence sequences[] = {{.index = 0, .first_row = 5, .prefix = 70, .branches = {3, 65, 1}},
                                           {.index = 1, .first_row = 144, .prefix = 40}};
    data.call.sequences = sequences;
    FloatAttention(data.call);
    ExpectReference(data, t, 5, 0, 5, 70, d);
    ExpectReference(data, t, 5, 70, 75, 3, d);
    ExpectReference(data, t, 5, 70, 78, 65, d);
    ExpectReference(data, t, 5, 70, 143, 1, d);
    ExpectReference(data, t, 144, 0, 144, 40, d);
  }
}

const Mask kMasks[] = {{Mask::Kind::kFull},       {Mask::Kind::kWindow, 1},   {Mask::Kind::kWindow, 7},
                       {Mask::Kind::kWindow, 64}, {Mask::Kind::kWindow, 100}, {Mask::Kind::kWindow, 1000}};

TEST(FloatAttentionTest, EveryMaskOfAPrefixAndOfItsBranches) {
  for (const Table& t : Tables()) {
    for (const Mask& mask : kMasks) {
      SCOPED_TRACE(testing::Message() << t.name << " mask " << static_cast<int>(mask.kind) << " " << mask.window);
      const int d = 16;
      Data data(t, 300 + 90 + 1, d, 5);
      const AttentionSequence sequence{.prefix = 300, .branches = {90, 1}};
      data.call.sequences = {&sequence, 1};
      data.call.problem.mask = mask;
      FloatAttention(data.call);
      ExpectReference(data, t, 0, 0, 0, 300, d);
      ExpectReference(data, t, 0, 300, 300, 90, d);
      ExpectReference(data, t, 0, 300, 390, 1, d);
    }
  }
}

// Keeps every attention logit it is shown, and doubles them if asked.
class Recorder : public SiteVisitor {
 public:
  Recorder(int heads, int64_t tokens) : logits(heads * tokens * tokens, NAN), surveyed(logits), tokens_(tokens) {}
  bool Wants(Site site, std::optional<int>) const override { return site == Site::kAttnLogits; }
  bool NeedsSurvey(Site, std::optional<int>) const override { return true; }
  void Survey(const SiteBlock& b, int) override { Keep(b, surveyed); }
  void Visit(const SiteBlock& b, int) override { Keep(b, logits); }

  std::vector<float> logits, surveyed;  // [heads][T][T]

 private:
  void Keep(const SiteBlock& b, std::vector<float>& into) {
    const std::lock_guard lock(mutex_);
    for (int64_t r = 0; r < b.rows; ++r) {
      float* const row = &into[(*b.head * tokens_ + b.first_row + r) * tokens_];
      ASSERT_EQ(std::ssize(b.Row(r)), b.Columns(r) - b.First(r));
      std::ranges::copy(b.Row(r), row + b.First(r));
    }
  }
  int64_t tokens_;
  std::mutex mutex_;
};

void ExpectUnmaskedLogits(const Mask& mask) {
  const Table t{"diffllama", DiffLlamaHeads(4, 2), 4, 2, 2, 2};
  const int64_t T = 100;
  const int d = 16;
  Data data(t, T, d, 3);
  const AttentionSequence sequence{.prefix = T};
  data.call.sequences = {&sequence, 1};
  data.call.problem.mask = mask;
  Recorder recorder(t.q, T);
  SiteVisitor* const visitors[] = {&recorder};
  data.call.visitors = visitors;
  FloatAttention(data.call);
  for (int h = 0; h < t.q; ++h) {
    for (int64_t i = 0; i < T; ++i) {
      const KeyRange keys = mask.Keys(i, T, T);
      for (int64_t j = 0; j < T; ++j) {
        const float seen = recorder.logits[(h * T + i) * T + j];
        ASSERT_EQ(std::isnan(seen), j < keys.begin || j >= keys.end);
        if (std::isnan(seen)) continue;
        double sum = 0, size = 0;
        for (int c = 0; c < d; ++c) {
          const double product =
              double{data.call.problem.q.Row(i, h)[c]} * data.call.problem.k.Row(j, h / 2)[c] * data.call.problem.scale;
          sum += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(seen, sum, (d + 3) * 0x1p-24 * size);
        ASSERT_EQ(seen, recorder.surveyed[(h * T + i) * T + j]);
      }
    }
  }
  ExpectReference(data, t, 0, 0, 0, T, d);
}

TEST(FloatAttentionTest, VisitorsSeeEveryUnmaskedLogitOnceScaled) {
  ExpectUnmaskedLogits({});
  for (const Mask& mask : kMasks) ExpectUnmaskedLogits(mask);
}

// A visitor that changes the difference makes the pass subtract before P x V.
class TouchDifference : public SiteVisitor {
 public:
  bool Wants(Site site, std::optional<int>) const override { return site == Site::kDifference; }
  bool Changes() const override { return true; }
  void Visit(const SiteBlock&, int) override {}
};

TEST(FloatAttentionTest, EveryMaskInEarlyOrder) {
  const Table t = Tables()[3];
  TouchDifference early;
  SiteVisitor* const visitors[] = {&early};
  for (const Mask& mask : kMasks) {
    Data data(t, 200, 16, 6);
    const AttentionSequence sequence{.prefix = 200};
    data.call.sequences = {&sequence, 1};
    data.call.problem.mask = mask;
    data.call.visitors = visitors;
    FloatAttention(data.call);
    ExpectReference(data, t, 0, 0, 0, 200, 16);
  }
}

TEST(FloatAttentionTest, RefusesSequencesOutsideTheRows) {
  const Table t = Tables()[0];
  Data data(t, 10, 8, 4);
  for (const AttentionSequence& s : {AttentionSequence{.first_row = 5, .prefix = 6}, AttentionSequence{.prefix = 0},
                                     AttentionSequence{.prefix = 8, .branches = {3}}}) {
    data.call.sequences = {&s, 1};
    EXPECT_THROW(FloatAttention(data.call), Error);
  }
}

}  // namespace
}  // namespace tare::float_attention_test
