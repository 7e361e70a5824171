// SPDX-License-Identifier: Apache-2.0
// The error through second moments is that of the outputs themselves, by plain sums in double; targets are those of
// least squares, and Qronos's codes are brevitas's.
#include "quant/algorithms/second_moments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <Eigen/Dense>

#include "quant/algorithms/gptq.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/random_quantized.h"

namespace tare::algorithms_second_moments_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// X [tokens, in] and H = X^T X, rounded to f32 once.
struct Inputs {
  Inputs(int64_t tokens, int64_t channels, unsigned seed)
      : in(channels), x(RandomNormal(static_cast<size_t>(tokens * in), seed)), h(static_cast<size_t>(in * in)) {
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t j = 0; j < in; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < tokens; ++t) sum += double{x[t * in + i]} * double{x[t * in + j]};
        h[i * in + j] = static_cast<float>(sum);
      }
    }
  }
  int64_t in;
  std::vector<float> x, h;
};

double PlainError(const std::vector<float>& d, const Inputs& inputs) {
  double sum = 0;
  for (size_t row = 0; row < d.size(); row += static_cast<size_t>(inputs.in)) {
    for (size_t t = 0; t < inputs.x.size(); t += static_cast<size_t>(inputs.in)) {
      double y = 0;
      for (int64_t i = 0; i < inputs.in; ++i) y += double{d[row + i]} * double{inputs.x[t + i]};
      sum += y * y;
    }
  }
  return sum;
}

// One block, several with a short last one of rows and columns, and a single value.
TEST(OutputErrorTest, IsThatOfTheOutputs) {
  for (const auto& [rows, in, tokens] : {std::tuple{70, 300, 40}, {3, 512, 20}, {65, 16, 50}, {1, 1, 1}}) {
    const Inputs inputs(tokens, in, 3);
    const std::vector<float> d = RandomNormal(static_cast<size_t>(rows * in), 4);
    // Each product of the sum is off by the roundings of H and of `in` f32 additions.
    double magnitude = 0;
    for (size_t row = 0; row < d.size(); row += static_cast<size_t>(in)) {
      for (int64_t i = 0; i < in; ++i) {
        for (int64_t j = 0; j < in; ++j)
          magnitude += std::fabs(double{d[row + i]} * double{inputs.h[i * in + j]} * double{d[row + j]});
      }
    }
    EXPECT_NEAR(OutputError(d, in, inputs.h), PlainError(d, inputs), magnitude * std::ldexp(in + 2, -24)) << in;
  }
}

TEST(OutputErrorTest, SameBitsOnAnyNumberOfThreads) {
  const Inputs inputs(30, 300, 5);
  const std::vector<float> d = RandomNormal(200 * 300, 6);
  SetThreads(1);
  const double one = OutputError(d, 300, inputs.h);
  SetThreads(3);
  EXPECT_EQ(OutputError(d, 300, inputs.h), one);
  SetThreads(0);
}

constexpr int64_t kIn = 24, kTokens = 200;
constexpr double kDamping = 0.02;

// Inputs of the model as stored, and what they became after rounded layers; [tokens, in].
struct TwoInputs {
  Eigen::MatrixXd exact{kTokens, kIn}, seen{kTokens, kIn};
  std::vector<float> hessian = std::vector<float>(kIn * kIn), cross = hessian;

  // dead: an input that is always 0 behind rounded layers.
  explicit TwoInputs(int64_t dead = -1) {
    const std::vector<float> noise = RandomNormal(2 * kTokens * kIn, 1);
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t i = 0; i < kIn; ++i) {
        exact(t, i) = (noise[t * kIn + i] + noise[t * kIn]) * (0.3 + static_cast<double>(i % 5));
        seen(t, i) = exact(t, i) * 0.9 + 0.2 * noise[(kTokens + t) * kIn + i] + 0.1;
        if (i == dead) seen(t, i) = 0;
      }
    }
    const Eigen::MatrixXd h = seen.transpose() * seen, c = (exact - seen).transpose() * seen;
    for (int64_t i = 0; i < kIn; ++i) {
      for (int64_t j = 0; j < kIn; ++j) {
        hessian[i * kIn + j] = j < i ? 1e30f : static_cast<float>(h(i, j));  // the lower triangle means nothing
        cross[i * kIn + j] = static_cast<float>(c(i, j));
      }
    }
  }
};

std::vector<float> AxisOf(size_t input) {
  std::vector<float> axis(kIn, 0.0f);
  axis[input] = 1;
  return axis;
}

Eigen::VectorXd ToVector(const std::vector<float>& x) {
  return Eigen::Map<const Eigen::VectorXf>(x.data(), std::ssize(x)).cast<double>();
}

TEST(AsymmetricTarget, IsTheLeastSquaresOfBothInputs) {
  const TwoInputs x;
  const AsymmetricTarget target(x.hessian, x.cross, kIn, kDamping, "test");
  const double damping = kDamping * (x.seen.transpose() * x.seen).diagonal().mean();
  for (unsigned seed = 2; seed < 6; ++seed) {
    const std::vector<float> w = RandomNormal(kIn, seed);
    Eigen::VectorXd row(kIn);
    for (int64_t i = 0; i < kIn; ++i) row(i) = double{w[i]};
    // Tokens stacked over the damping: least squares by QR, without normal equations.
    Eigen::MatrixXd a(kTokens + kIn, kIn);
    Eigen::VectorXd b(kTokens + kIn);
    a << x.seen, std::sqrt(damping) * Eigen::MatrixXd::Identity(kIn, kIn);
    b << x.exact * row, std::sqrt(damping) * row;
    const Eigen::VectorXd best = a.colPivHouseholderQr().solve(b);
    std::vector<float> corrected = w;
    target.Correct(1, corrected.data());
    for (int64_t i = 0; i < kIn; ++i) EXPECT_NEAR(corrected[i], best(i), 1e-4 * best.norm()) << seed;
    EXPECT_GT((best - row).norm(), 0.05 * row.norm());  // there was something to correct
  }
}

// Rows together are the rows one by one.
TEST(AsymmetricTarget, CorrectsManyRows) {
  const TwoInputs x;
  const AsymmetricTarget target(x.hessian, x.cross, kIn, kDamping, "test");
  std::vector<float> together = RandomNormal(70 * kIn, 7), alone = together;
  target.Correct(70, together.data());
  for (int64_t row = 0; row < 70; ++row) target.Correct(1, &alone[row * kIn]);
  EXPECT_EQ(together, alone);
}

TEST(AsymmetricTarget, WithNothingLostNothingChanges) {
  TwoInputs x;
  std::ranges::fill(x.cross, 0.0f);
  const std::vector<float> w = RandomNormal(kIn, 2);
  std::vector<float> corrected = w;
  AsymmetricTarget(x.hessian, x.cross, kIn, kDamping, "test").Correct(1, corrected.data());
  EXPECT_EQ(corrected, w);
}

// No weights with that product with the first direction err less: the direction is an axis, an input that is always 0,
// whose weight stays, and no axis.
TEST(AsymmetricTarget, BehindQronossFirstWeightIsTheLeastSquares) {
  const TwoInputs x(3);
  const Eigen::MatrixXd h = x.seen.transpose() * x.seen, c = (x.exact - x.seen).transpose() * x.seen;
  const Eigen::MatrixXd damped = h + kDamping * h.diagonal().mean() * Eigen::MatrixXd::Identity(kIn, kIn);
  std::vector<float> turned(kIn, 0.5f / std::sqrt(2.0f));
  std::fill(turned.begin() + 8, turned.end(), 0.0f);
  for (const std::vector<float>& first : {AxisOf(7), AxisOf(3), turned}) {
    const std::vector<float> w = RandomNormal(kIn, 9);
    std::vector<float> corrected = w;
    AsymmetricTarget(x.hessian, x.cross, kIn, kDamping, "test", first).Correct(1, corrected.data());
    const Eigen::VectorXd r = ToVector(first), row = ToVector(w), got = ToVector(corrected);
    const double square = r.dot(h * r), given = row.dot(r) + (square > 0 ? row.dot(c * r) / square : 0);
    EXPECT_NEAR(got.dot(r), given, 1e-4 * got.norm());
    // The gradient of the error is along r alone.
    const Eigen::VectorXd gradient = damped * (got - row) - c.transpose() * row;
    EXPECT_LT((gradient - gradient.dot(r) * r).norm(), 1e-4 * (damped * got).norm());
  }
}

TEST(AsymmetricTarget, LargestEigenvalueIsReachedFromBelow) {
  const TwoInputs x;
  const double largest =
      Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(x.seen.transpose() * x.seen).eigenvalues()(kIn - 1);
  EXPECT_NEAR(LargestEigenvalue(x.hessian, kIn), largest, 1e-6 * largest);
  EXPECT_EQ(LargestEigenvalue({0, 0, 0, 0}, 2), 0);
}

// GPTQ.step of IST-DASLab/FP-Quant d2e3092 and single_layer_update of Xilinx/brevitas b106358, the latter with the
// exact eigenvalue for its random power method, in double: 200 tokens, inputs as stored, codes -8 to 7; a row of zeros,
// an outlier, a constant row.
TEST(Qronos, AndGptqHaveTheCodesOfTheirAuthors) {
  const Safetensors golden(TARE_SOURCE_DIR "/tests/data/formats/weights.safetensors");
  constexpr int64_t kOut = 12, kChannels = 32, kSamples = 200;
  const auto x = ValuesOf<float>(golden, "x"), rounded = ValuesOf<float>(golden, "x_rounded"),
             w = ValuesOf<float>(golden, "w"), scale = ValuesOf<float>(golden, "scale");
  std::vector<float> hessian(kChannels * kChannels), cross = hessian;
  for (int64_t i = 0; i < kChannels; ++i) {
    for (int64_t j = 0; j < kChannels; ++j) {
      double square = 0, product = 0;
      for (int64_t t = 0; t < kSamples * kChannels; t += kChannels) {
        square += double{rounded[t + i]} * double{rounded[t + j]};
        product += (double{x[t + i]} - double{rounded[t + i]}) * double{rounded[t + j]};
      }
      hessian[i * kChannels + j] = static_cast<float>(square);
      cross[i * kChannels + j] = static_cast<float>(product);
    }
  }
  const auto codes_of = [&](const std::vector<float>& weights, double damping) {
    const Format format = WithRange(Format::kInt4, CodeRange::kFull);
    QuantizedMatrixBuffer matrix(format, kOut, kChannels, kChannels);
    GptqFactor(hessian, kChannels, damping, "golden", 1, GptqOrder::kStored)
        .Round([&](int64_t row, float* y) { std::copy_n(&weights[row * kChannels], kChannels, y); },
               [&](int64_t row, int64_t, const float*, int64_t) { return Ends{-7.5f * scale[row], 7.5f * scale[row]}; },
               matrix);
    std::vector<int8_t> codes(kOut * kChannels);
    for (int64_t row = 0; row < kOut; ++row)
      Unpack<int8_t>(format, {matrix.Codes(row), matrix.view().RowBytes()},
                     std::span(codes).subspan(row * kChannels, kChannels));
    return codes;
  };
  EXPECT_EQ(codes_of(w, kGptqDamping), ValuesOf<int8_t>(golden, "gptq_codes"));
  const double largest = LargestEigenvalue(hessian, kChannels);
  EXPECT_NEAR(1e-6 * largest / kSamples, ValuesOf<double>(golden, "qronos_damp")[0], 1e-9);
  const double damping = 1e-6 * largest / MeanOfDiagonal(hessian, kChannels);
  std::vector<float> aimed = w, first(kChannels, 0.0f);
  first[0] = 1;
  AsymmetricTarget(hessian, cross, kChannels, damping, "golden", first).Correct(kOut, aimed.data());
  EXPECT_EQ(codes_of(aimed, damping), ValuesOf<int8_t>(golden, "qronos_codes"));
}

TEST(AsymmetricTarget, BadMomentsAreNamed) {
  TwoInputs x;
  x.cross[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Call([&] { AsymmetricTarget(x.hessian, x.cross, kIn, kDamping, "layer 3"); }),
              ThrowsMessage<Error>(HasSubstr("layer 3")));
  EXPECT_THAT(Call([&] { AsymmetricTarget({1, 5, 5, 1}, {0, 0, 0, 0}, 2, kDamping, "layer 3"); }),
              ThrowsMessage<Error>(HasSubstr("not positive definite")));
}

AlignedBuffer<float> Buffer(const std::vector<float>& values) {
  AlignedBuffer<float> buffer(values.size());
  std::ranges::copy(values, buffer.data());
  return buffer;
}

// sums[j][r] += m[k][j] x[k][r], one k after another.
void AddPlainly(const std::vector<float>& m, int64_t n, Range k, Range columns, const AlignedBuffer<float>& x,
                AlignedBuffer<float>& sums) {
  for (int64_t j = columns.begin; j < columns.end; ++j) {
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      float& sum = sums[j * kRowsTogether + r];
      for (int64_t i = k.begin; i < k.end; ++i) sum = std::fma(m[i * n + j], x[i * kRowsTogether + r], sum);
    }
  }
}

TEST(PanelProducts, AreTheSumsOfPlainLoops) {
  for (const int64_t n : {1, 7, 8, 9, 100, 300}) {
    const std::vector<float> m = RandomNormal(static_cast<size_t>(n * n), static_cast<unsigned>(n));
    const Panels panels(Panels::Shape::kFull, n, m.data());
    EXPECT_EQ(panels.count(), (n + 7) / 8);
    const AlignedBuffer<float> x = Buffer(RandomNormal(Panels::ValuesFor(n), 1));
    const std::vector<float> before = RandomNormal(Panels::ValuesFor(n), 2);
    for (const Range k : {Range{0, n}, {0, n / 2}, {n / 2, n}, {n, n}}) {
      AlignedBuffer<float> sums = Buffer(before), expected = Buffer(before);
      panels.AddProducts(k, {0, panels.count()}, x.data(), sums.data());
      AddPlainly(m, n, k, {0, n}, x, expected);
      EXPECT_TRUE(std::ranges::equal(sums.span(), expected.span())) << n << ' ' << k.begin << ' ' << k.end;
    }
  }
}

TEST(PanelProducts, OfSomePanelsLeaveTheOthers) {
  constexpr int64_t kSize = 40;
  const std::vector<float> m = RandomNormal(kSize * kSize, 3);
  const AlignedBuffer<float> x = Buffer(RandomNormal(Panels::ValuesFor(kSize), 4));
  AlignedBuffer<float> sums = Buffer(std::vector<float>(Panels::ValuesFor(kSize), 1.0f)),
                       expected = Buffer(std::vector<float>(Panels::ValuesFor(kSize), 1.0f));
  Panels(Panels::Shape::kFull, kSize, m.data()).AddProducts({3, 21}, {1, 3}, x.data(), sums.data());
  AddPlainly(m, kSize, {3, 21}, {8, 24}, x, expected);
  EXPECT_TRUE(std::ranges::equal(sums.span(), expected.span()));
}

// However the k are cut into calls.
TEST(PanelProducts, OfPartsAreTheSameBits) {
  constexpr int64_t kSize = 290;
  const std::vector<float> m = RandomNormal(kSize * kSize, 5);
  const AlignedBuffer<float> x = Buffer(RandomNormal(Panels::ValuesFor(kSize), 6));
  const Panels panels(Panels::Shape::kFull, kSize, m.data());
  AlignedBuffer<float> once = Buffer(std::vector<float>(Panels::ValuesFor(kSize))),
                       parts = Buffer(std::vector<float>(Panels::ValuesFor(kSize)));
  panels.AddProducts({0, kSize}, {0, panels.count()}, x.data(), once.data());
  for (int64_t k = 0; k < kSize; k += 29) panels.AddProducts({k, k + 29}, {0, panels.count()}, x.data(), parts.data());
  EXPECT_TRUE(std::ranges::equal(once.span(), parts.span()));
}

// A panel of an upper triangle holds its rows down to its part of the diagonal.
TEST(PanelProducts, OfAnUpperTriangle) {
  for (const int64_t n : {1, 8, 20, 131}) {
    std::vector<float> m = RandomNormal(static_cast<size_t>(n * n), 7);
    for (int64_t i = 0; i < n; ++i) std::fill_n(&m[i * n], i, 0.0f);
    const Panels panels(Panels::Shape::kUpper, n, m.data());
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i; j < n; ++j) ASSERT_EQ(panels.At(i, j), m[i * n + j]);
    }
    const AlignedBuffer<float> x = Buffer(RandomNormal(Panels::ValuesFor(n), 8));
    AlignedBuffer<float> sums = Buffer(std::vector<float>(Panels::ValuesFor(n))),
                         expected = Buffer(std::vector<float>(Panels::ValuesFor(n)));
    for (int64_t p = 0; p < panels.count(); ++p) {
      const int64_t end = std::min((p + 1) * kPanel, n);
      panels.AddProducts({0, end}, {p, p + 1}, x.data(), sums.data());
      AddPlainly(m, n, {0, end}, {p * kPanel, end}, x, expected);
    }
    EXPECT_TRUE(std::ranges::equal(sums.span(), expected.span())) << n;
  }
}

}  // namespace
}  // namespace tare::algorithms_second_moments_test
