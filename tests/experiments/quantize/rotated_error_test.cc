// SPDX-License-Identifier: Apache-2.0
// Against a reference in double with loops of its own: its sums of inputs, its products, its rounding, and differences
// of its loss in place of a gradient.
#include "experiments/quantize/rotated_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "experiments/quantize/equivalent_weights.h"
#include "quant/algorithms/cayley.h"
#include "quant/base/error.h"
#include "quant/format/hadamard.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/random_quantized.h"

namespace tare {
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
    for (int64_t k = 0; k < a.columns; ++k) {
      for (int64_t j = 0; j < b.columns; ++j) c.At(i, j) += a.At(i, k) * b.At(k, j);
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

// What a group's scale follows, and a weight's value, of int4 and of int2+min.
struct Kind {
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

struct OneMatrix {
  bool reads;
  Matrix w, h;
  double size;
};

class RotatedErrorTest : public testing::TestWithParam<Kind> {
 protected:
  RotatedErrorTest() {
    const auto golden = GoldenFolder("llama-mha");
    const ModelConfig config = LoadConfig(golden);
    WriteEquivalent(Checkpoint(golden), golden, Rotated(Checkpoint(golden), config, 0), {.plan = "f32"}, path_, {});
    model_.emplace(path_);
    TokenBatch batch;
    for (size_t i = 0; i < 3; ++i) batch.Add(static_cast<int64_t>(i), Text()[i].tokens);
    Moments moments;
    SiteVisitor* const visitors[] = {&moments};
    model_->Forward(batch, visitors);
    for (int layer = 0; layer < config.layers; ++layer) {
      const LayerWeights& weights = model_->layers()[static_cast<size_t>(layer)];
      const std::tuple<const LinearWeights*, Site, bool> all[] = {
          {&weights.q, Site::kQProjIn, true},       {&weights.k, Site::kQProjIn, true},
          {&weights.v, Site::kQProjIn, true},       {&weights.o, Site::kOProjIn, false},
          {&weights.gate, Site::kGateProjIn, true}, {&weights.up, Site::kGateProjIn, true},
          {&weights.down, Site::kDownProjIn, false}};
      for (const auto& [linear, site, reads] : all) {
        Matrix w(linear->weight.out, linear->weight.in);
        std::vector<float> row(static_cast<size_t>(w.columns));
        for (int64_t r = 0; r < w.rows; ++r) {
          RowAsFloat(linear->weight, r, row.data());
          std::ranges::copy(row, w.values.begin() + r * w.columns);
        }
        const Matrix& h = moments.of.at({layer, site});
        matrices_.push_back({reads, w, h, Lost(w, h)});
      }
    }
  }

  static Matrix TurnedWeights(const OneMatrix& one, const Matrix& q) {
    return Times(one.reads ? Times(one.w, q) : Times(Transposed(q), one.w), BasisOf(one.w.columns, GetParam().run));
  }
  static Matrix TurnedMoments(const OneMatrix& one, const Matrix& q) {
    const Matrix basis = BasisOf(one.w.columns, GetParam().run);
    return Times(Transposed(basis), Times(one.reads ? Times(Transposed(q), Times(one.h, q)) : one.h, basis));
  }
  // Rounding's errors at q, in magnitudes of their groups.
  static Matrix ErrorsAt(const OneMatrix& one, const Matrix& q) {
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
  double LossOf(const std::vector<Matrix>& errors, const Matrix& q) const {
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
  std::vector<Matrix> AllErrorsAt(const Matrix& q) const {
    std::vector<Matrix> errors;
    for (const OneMatrix& one : matrices_) errors.push_back(ErrorsAt(one, q));
    return errors;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "r.h5";
  std::optional<Model> model_;
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
// may be its neighbour, one weight of 75,776: a 1/275th of what slopes deviate by.
TEST_P(RotatedErrorTest, IsTheReferencesLossAndSlope) {
  RotatedError error(*model_, Text(), Plan::Parse(GetParam().plan), {});
  const int64_t n = error.channels();
  Matrix q(n, n);
  for (int64_t i = 0; i < n; ++i) q.At(i, i) = 1;
  CayleyStep(n, Skew(n, 1).values, 0.5, q.values);
  std::vector<double> gradient;
  const double loss = error.At(q.values, gradient);
  const std::vector<Matrix> errors = AllErrorsAt(q);
  EXPECT_NEAR(loss, LossOf(errors, q), 1e-4 * loss);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    constexpr double kStep = 1e-7;  // few groups have two largest weights so near each other
    const Matrix skew = Skew(n, seed);
    const double slope = (LossOf(errors, Along(q, skew, kStep)) - LossOf(errors, Along(q, skew, -kStep))) / (2 * kStep);
    double along = 0, squares = 0;  // squares: of what slopes in random directions deviate by
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const double by = gradient[static_cast<size_t>(i * n + j)];
        along += by * skew.At(i, j);
        squares += std::pow(by - gradient[static_cast<size_t>(j * n + i)], 2) / 2;
      }
    }
    EXPECT_NEAR(along, slope, 1e-2 * std::sqrt(squares)) << seed;
    EXPECT_GT(std::abs(slope), (GetParam().run > 0 ? 5e-2 : 1e-1) * std::sqrt(squares)) << seed << ": says nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RotatedErrorTest,
                         testing::Values(Kind{"weights=int4/group16", false, 7},
                                         Kind{"weights=int2/group16+min", true, 3},
                                         Kind{"weights=int4/group16+hadamard8", false, 7, 8}),
                         [](const auto& kind) {
                           return kind.param.run > 0 ? "Rotated" : kind.param.range ? "Range" : "Magnitude";
                         });

TEST(RotatedError, WhatCannotBeLearnedIsRefusedByName) {
  const auto check = [](const char* golden, const char* plan) {
    CheckRotatedError(LoadConfig(GoldenFolder(golden)), Plan::Parse(plan));
  };
  EXPECT_THAT(Call([&] { check("olmo2", "weights=int4/group16"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("cayley: got an olmo2 model"), HasSubstr("try another method"))));
  EXPECT_THAT(Call([&] { check("llama-mha", "lm_head.w=int4/group16"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("cayley: got the plan 'lm_head.w=int4/group16'"),
                                         HasSubstr("try weights=int4/group64"))));
  ModelConfig config = LoadConfig(GoldenFolder("llama-mha"));
  config.hidden = 36;
  EXPECT_THAT(Call([&] { CheckRotatedError(config, Plan::Parse("weights=int4/channel")); }),
              ThrowsMessage<Error>(HasSubstr("hadamard: got 36 channels")));
  for (const char* golden : {"diffllama-gqa", "mixtral", "motif"})
    EXPECT_NO_THROW(check(golden, "weights=int4/group16")) << golden;
}

}  // namespace
}  // namespace tare
