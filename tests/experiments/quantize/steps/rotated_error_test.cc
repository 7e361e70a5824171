// SPDX-License-Identifier: Apache-2.0
// Against a reference in double with loops of its own: its sums of inputs, its products, its rounding, and differences
// of its loss in place of a gradient.
#include "experiments/quantize/steps/rotated_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>

#include "experiments/model/config/config.h"
#include "experiments/quantize/equivalent_weights.h"
#include "quant/algorithms/channel_transforms.h"
#include "quant/base/message.h"
#include "quant/format/hadamard.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/random_quantized.h"

namespace tare::rotated_error_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// In double, row-major.
struct Matrix {
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c), 0.0) {}
  double& At(int64_t r, int64_t c) { return values[static_cast<size_t>(r * columns + c)]; }
  double At(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * columns + c)]; }
  int64_t rows, columns;
  std::vector<double> values;
};

Matrix Times(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    double* const sums = c.values.data() + i * b.columns;
    for (int64_t k = 0; k < a.columns; ++k) {
      const double by = a.At(i, k);
      const double* const row = b.values.data() + k * b.columns;
      for (int64_t j = 0; by != 0 && j < b.columns; ++j) sums[j] += by * row[j];
    }
  }
  return c;
}

Matrix Transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) t.At(j, i) = a.At(i, j);
  }
  return t;
}

// What rows are multiplied by before they are rounded: a plan's rotation, or the identity.
Matrix BasisOf(int64_t n, int run) {
  Matrix basis(n, n);
  std::vector<float> row(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    std::ranges::fill(row, 0.0f);
    row[static_cast<size_t>(i)] = 1;
    if (run > 0) PlanRotation(n, {run}).Rotate(row.data(), row.data());
    std::ranges::copy(row, basis.values.begin() + i * n);
  }
  return basis;
}

// a b, where b may be the identity or blocks: the zeros of the first factor cost nothing.
Matrix TimesTurn(const Matrix& a, const Matrix& b) { return Transposed(Times(Transposed(b), Transposed(a))); }

// tr(e h e^T)
double Lost(const Matrix& e, const Matrix& h) {
  const Matrix product = Times(e, h);
  double sum = 0;
  for (size_t i = 0; i < e.values.size(); ++i) sum += product.values[i] * e.values[i];
  return sum;
}

std::vector<ScoredSequence> Text() {
  std::vector<ScoredSequence> text(3);
  for (int s = 0; s < 3; ++s) {
    for (int i = 0; i < 40; ++i) text[static_cast<size_t>(s)].tokens.push_back((7 * i * i + 31 * s) % 95 + 1);
  }
  return text;
}

// Sums of x x^T of every input in a pass of the text.
class Moments : public SiteVisitor {
 public:
  bool Wants(Site site, std::optional<int> layer) const override {
    return layer.has_value() && std::ranges::contains(kCalibratedInputs, site);
  }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex_);
    const auto n = std::ssize(block.Row(0));
    Matrix& sums = of.try_emplace({block.layer.value(), block.site}, n, n).first->second;
    for (int64_t r = 0; r < block.rows; ++r) {
      const std::span<const float> x = block.Row(r);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j)
          sums.At(i, j) += double{x[static_cast<size_t>(i)]} * double{x[static_cast<size_t>(j)]};
      }
    }
  }
  std::map<std::pair<int, Site>, Matrix> of;

 private:
  std::mutex mutex_;
};

constexpr int64_t kGroup = 16;

// A model, what a group's scale follows, and a weight's value, of int4 and of int2+min.
struct Kind {
  const char* golden;
  const char* plan;
  bool range;     // from the smallest to the largest
  double levels;  // steps in what the scale follows
  int run = 0;    // of +hadamard; 0: without it
};

struct Group {
  double low, magnitude;
};

Group GroupOf(const Kind& kind, const Matrix& w, int64_t row, int64_t first) {
  double low = w.At(row, first), high = low, absmax = 0;
  for (int64_t i = first; i < first + kGroup; ++i) {
    low = std::min(low, w.At(row, i));
    high = std::max(high, w.At(row, i));
    absmax = std::max(absmax, std::abs(w.At(row, i)));
  }
  return kind.range ? Group{low, high - low} : Group{0, absmax};
}

using Rotations = std::vector<Matrix>;  // of the stream, and of each layer's values

struct OneMatrix {
  Matrix w, h;
  double size;
  std::optional<size_t> in, out;  // which rotation
};

// q for every run of q.rows channels in this order.
Matrix InBlocks(const Matrix& q, const std::vector<int64_t>& order) {
  Matrix all(std::ssize(order), std::ssize(order));
  for (int64_t first = 0; first < all.rows; first += q.rows) {
    for (int64_t i = 0; i < q.rows; ++i) {
      for (int64_t j = 0; j < q.rows; ++j)
        all.At(order[static_cast<size_t>(first + i)], order[static_cast<size_t>(first + j)]) = q.At(i, j);
    }
  }
  return all;
}

std::vector<int64_t> Counted(int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

// Rows of v_proj head by head: DiffLlama's heads have the values of key/value head h and of the one half of all heads
// behind it.
std::vector<int64_t> ValueRows(const ModelConfig& c, bool pairs) {
  const int64_t rows = int64_t{c.kv_heads} * c.head_dim;
  if (!pairs) return Counted(rows);
  std::vector<int64_t> order;
  for (int64_t head = 0; head < c.kv_heads / 2; ++head) {
    for (const int64_t slice : {head, head + c.kv_heads / 2}) {
      for (int64_t i = 0; i < c.head_dim; ++i) order.push_back(slice * c.head_dim + i);
    }
  }
  return order;
}

class RotatedErrorTest : public testing::TestWithParam<Kind> {
 protected:
  RotatedErrorTest() {
    const auto golden = GoldenFolder(GetParam().golden);
    const ModelConfig config = LoadConfig(golden);
    const bool pairs = config.family == "diffllama";
    value_rows_ = ValueRows(config, pairs);
    sizes_.assign(static_cast<size_t>(config.layers) + 1, (pairs ? 2 : 1) * config.head_dim);
    sizes_[0] = config.hidden;
    WriteEquivalent(Checkpoint(golden), golden, Rotated(Checkpoint(golden), config, 0), {.plan = "f32"}, path_, {});
    model_.emplace(path_);
    TokenBatch batch;
    for (size_t i = 0; i < 3; ++i) batch.Add(static_cast<int64_t>(i), Text()[i].tokens);
    Moments moments;
    SiteVisitor* const visitors[] = {&moments};
    model_->Forward(batch, visitors);
    for (int layer = 0; layer < config.layers; ++layer) {
      const LayerWeights& weights = model_->layers()[static_cast<size_t>(layer)];
      const size_t values = 1 + static_cast<size_t>(layer);
      using Which = std::optional<size_t>;
      const std::tuple<const LinearWeights*, Site, Which, Which> all[] = {
          {&weights.q, Site::kQProjIn, 0, {}},       {&weights.k, Site::kQProjIn, 0, {}},
          {&weights.v, Site::kQProjIn, 0, values},   {&weights.o, Site::kOProjIn, values, 0},
          {&weights.gate, Site::kGateProjIn, 0, {}}, {&weights.up, Site::kGateProjIn, 0, {}},
          {&weights.down, Site::kDownProjIn, {}, 0}};
      for (const auto& [linear, site, in, out] : all) {
        Matrix w(linear->stored().out, linear->stored().in);
        std::vector<float> row(static_cast<size_t>(w.columns));
        for (int64_t r = 0; r < w.rows; ++r) {
          RowAsFloat(linear->stored(), r, row.data());
          std::ranges::copy(row, w.values.begin() + r * w.columns);
        }
        const Matrix& h = moments.of.at({layer, site});
        matrices_.push_back({w, h, Lost(w, h), in, out});
      }
    }
  }

  // What turns a matrix's inputs, also as the plan rotates them, and its outputs.
  static Matrix InTurn(const OneMatrix& one, const Rotations& q) {
    const std::vector<int64_t> order = Counted(one.w.columns);
    return one.in ? InBlocks(q[*one.in], order) : BasisOf(one.w.columns, 0);
  }
  static Matrix WholeTurn(const OneMatrix& one, const Rotations& q) {
    return Times(InTurn(one, q), BasisOf(one.w.columns, GetParam().run));
  }
  Matrix OutTurn(const OneMatrix& one, const Rotations& q) const {
    return one.out ? InBlocks(q[*one.out], *one.out > 0 ? value_rows_ : Counted(one.w.rows)) : BasisOf(one.w.rows, 0);
  }
  Matrix TurnedWeights(const OneMatrix& one, const Rotations& q) const {
    return Times(Transposed(OutTurn(one, q)), TimesTurn(one.w, WholeTurn(one, q)));
  }
  static Matrix TurnedMoments(const OneMatrix& one, const Rotations& q) {
    const Matrix turn = WholeTurn(one, q);
    return Times(Transposed(turn), TimesTurn(one.h, turn));
  }
  // Rounding's errors at q, in magnitudes of their groups.
  Matrix ErrorsAt(const OneMatrix& one, const Rotations& q) const {
    const Kind& kind = GetParam();
    Matrix w = TurnedWeights(one, q), e = w;
    for (int64_t r = 0; r < w.rows; ++r) {
      for (int64_t i = 0; i < w.columns; ++i) {
        const auto [low, magnitude] = GroupOf(kind, w, r, i / kGroup * kGroup);
        const double step = magnitude / kind.levels;
        e.At(r, i) = (std::nearbyint((w.At(r, i) - low) / step) * step + low - w.At(r, i)) / magnitude;
      }
    }
    return e;
  }
  // The loss at q of such errors.
  double LossOf(const std::vector<Matrix>& errors, const Rotations& q) const {
    double loss = 0;
    for (size_t m = 0; m < matrices_.size(); ++m) {
      const Matrix w = TurnedWeights(matrices_[m], q);
      Matrix e = errors[m];
      for (int64_t r = 0; r < e.rows; ++r) {
        for (int64_t i = 0; i < e.columns; ++i) e.At(r, i) *= GroupOf(GetParam(), w, r, i / kGroup * kGroup).magnitude;
      }
      loss += Lost(e, TurnedMoments(matrices_[m], q)) / matrices_[m].size;
    }
    return loss;
  }
  std::vector<Matrix> AllErrorsAt(const Rotations& q) const {
    std::vector<Matrix> errors;
    for (const OneMatrix& one : matrices_) errors.push_back(ErrorsAt(one, q));
    return errors;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "r.h5";
  std::optional<Model> model_;
  std::vector<int64_t> sizes_, value_rows_;
  std::vector<OneMatrix> matrices_;
};

Matrix Skew(int64_t n, uint64_t seed) {
  const std::vector<float> random = RandomNormal(static_cast<size_t>(n * n), seed);
  Matrix skew(n, n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      skew.At(i, j) = random[static_cast<size_t>(i * n + j)];
      skew.At(j, i) = -skew.At(i, j);
    }
  }
  return skew;
}

// q exp(t skew), to second order.
Matrix Along(const Matrix& q, const Matrix& skew, double t) {
  const Matrix square = Times(skew, skew);
  Matrix factor(q.rows, q.rows);
  for (int64_t i = 0; i < q.rows; ++i) {
    for (int64_t j = 0; j < q.rows; ++j) factor.At(i, j) = (i == j) + t * skew.At(i, j) + t * t / 2 * square.At(i, j);
  }
  return Times(q, factor);
}

// f32 where the reference has double: products of n terms are off by sqrt(n) 2^-24 or so each, and a code near a tie
// may be its neighbour, one weight of 75,776 or more: a 1/275th of what slopes deviate by. The stream moves, then the
// first layer's values, then all.
TEST_P(RotatedErrorTest, IsTheReferencesLossAndSlopes) {
  RotatedError error(*model_, Text(), Plan::Parse(GetParam().plan), {});
  ASSERT_EQ(error.sizes(), sizes_);
  std::vector<std::vector<double>> rotations, gradients;
  Rotations q;
  for (const int64_t n : sizes_) {
    const size_t seed = 100 + q.size();
    q.push_back(BasisOf(n, 0));
    CayleyStep(n, Skew(n, seed).values, 0.5, q.back().values);
    rotations.push_back(q.back().values);
  }
  const double loss = error.At(rotations, gradients);
  const std::vector<Matrix> errors = AllErrorsAt(q);
  EXPECT_NEAR(loss, LossOf(errors, q), 1e-4 * loss);
  for (const size_t moved : {size_t{0}, size_t{1}, q.size()}) {
    constexpr double kStep = 1e-7;  // few groups have two largest weights so near each other
    Rotations before = q, after = q;
    double along = 0, squares = 0;  // squares: of what slopes in random directions deviate by
    for (size_t i = 0; i < q.size(); ++i) {
      if (moved < q.size() && i != moved) continue;
      const int64_t n = sizes_[i];
      const Matrix skew = Skew(n, 2 + i);
      before[i] = Along(q[i], skew, -kStep);
      after[i] = Along(q[i], skew, kStep);
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          const double by = gradients[i][static_cast<size_t>(r * n + c)];
          along += by * skew.At(r, c);
          squares += std::pow(by - gradients[i][static_cast<size_t>(c * n + r)], 2) / 2;
        }
      }
    }
    const double slope = (LossOf(errors, after) - LossOf(errors, before)) / (2 * kStep);
    EXPECT_NEAR(along, slope, 1e-2 * std::sqrt(squares)) << moved;
    EXPECT_GT(std::abs(slope), 5e-2 * std::sqrt(squares)) << moved << ": says nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RotatedErrorTest,
                         testing::Values(Kind{"llama-mha", "weights=int4/group16", false, 7},
                                         Kind{"diffllama-gqa", "weights=int4/group16", false, 7},
                                         Kind{"llama-mha", "weights=int2/group16+min", true, 3},
                                         Kind{"llama-mha", "weights=int4/group16+hadamard8", false, 7, 8}),
                         [](const auto& kind) {
                           const Kind& k = kind.param;
                           return k.run > 0            ? "Rotated"
                                  : k.range            ? "Range"
                                  : k.golden[0] == 'd' ? "Pairs"
                                                       : "Magnitude";
                         });

TEST(RotatedError, WhatCannotBeLearnedIsRefusedByName) {
  const auto check = [](const char* golden, const char* plan) {
    CheckRotatedError(LoadConfig(GoldenFolder(golden)), Plan::Parse(plan));
  };
  EXPECT_THAT(Call([&] { check("olmo2", "weights=int4/group16"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("cayley: got an olmo2 model"), HasSubstr("try another method"))));
  EXPECT_THAT(Call([&] { check("llama-mha", "lm_head.w=int4/group16"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("cayley: got the plan 'lm_head.w=int4/group16'"),
                                         HasSubstr("try weights=int4/channel"))));
  ModelConfig config = LoadConfig(GoldenFolder("llama-mha"));
  config.hidden = 36;
  EXPECT_THAT(Call([&] { CheckRotatedError(config, Plan::Parse("weights=int4/channel")); }),
              ThrowsMessage<Error>(HasSubstr("hadamard: got 36 channels")));
  for (const char* golden : {"diffllama-gqa", "mixtral", "motif"})
    EXPECT_NO_THROW(check(golden, "weights=int4/group16")) << golden;
}

}  // namespace
}  // namespace tare::rotated_error_test
