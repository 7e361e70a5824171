// SPDX-License-Identifier: Apache-2.0
// Which steps act on which matrix; the algorithms have tests of their own.
#include "experiments/quantize/calibrated_rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "quant/algorithms/output_error.h"
#include "quant/base/error.h"
#include "quant/format/hadamard.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/random_quantized.h"

namespace tare {
namespace {

constexpr int64_t kIn = 32, kOut = 24;

class CalibratedRoundingTest : public testing::Test {
 protected:
  CalibratedRoundingTest() {
    const std::vector<float> x = RandomNormal(200 * kIn, 1);
    moments_ = {.in = kIn, .tokens = 200, .values = std::vector<float>(kIn * kIn), .cross = {}};
    for (int64_t t = 0; t < 200; ++t) {
      for (int64_t i = 0; i < kIn; ++i) {
        for (int64_t j = 0; j < kIn; ++j)
          moments_.values[i * kIn + j] += (1 + i % 7) * (1 + j % 7) * x[t * kIn + i] * x[t * kIn + j];
      }
    }
  }
  std::vector<float> Rounded(const char* method, const char* plan, Site weight = Site::kVProjW) const {
    const Plan parsed = Plan::Parse(plan);
    const CalibratedRounding rounding(QuantizeMethod::Parse(method), moments_, 1, nullptr, "layer");
    const QuantizedMatrixBuffer matrix =
        rounding.Round({w_.data(), WeightType::kF32, kOut, kIn}, weight, parsed.rules().front(), "layer");
    std::vector<float> values(w_.size());
    for (int64_t row = 0; row < kOut; ++row) DequantizeRow(matrix.view(), row, values.data() + row * kIn);
    return values;
  }

  std::vector<float> w_ = RandomNormal(kOut * kIn, 2);
  SecondMoments moments_;
};

TEST_F(CalibratedRoundingTest, AwqClipsAllButQueriesAndKeys) {
  const char* plan = "weights=int4/group16";
  EXPECT_NE(Rounded("awq", plan), Rounded("gptq", plan));
  EXPECT_NE(Rounded("awq", plan), Rounded("awq", plan, Site::kQProjW));
  EXPECT_EQ(Rounded("awq", plan, Site::kKProjW), Rounded("awq", plan, Site::kQProjW));
  EXPECT_EQ(Rounded("awq+gptq", plan, Site::kQProjW), Rounded("gptq", plan));
  EXPECT_NE(Rounded("awq+gptq", plan), Rounded("gptq", plan));
}

TEST_F(CalibratedRoundingTest, ARuleWithMseChoosesItsOwnClips) {
  const char* plan = "weights=int4/group16+mse";
  EXPECT_EQ(Rounded("awq", plan), Rounded("awq", plan, Site::kQProjW));
  EXPECT_NE(Rounded("awq", plan), Rounded("awq", "weights=int4/group16"));
}

TEST_F(CalibratedRoundingTest, LearningTakesAsManyStepsAsAskedFor) {
  const char* plan = "weights=int4/group16";
  EXPECT_NE(Rounded("signround", plan), Rounded("rtn+quantease", plan));
  EXPECT_EQ(Rounded("signround:200", plan), Rounded("signround", plan));
  EXPECT_NE(Rounded("signround:3", plan), Rounded("signround", plan));
  EXPECT_NE(Rounded("awq+signround", plan), Rounded("signround", plan)) << "its clips to begin with";
}

// AutoRound's tuning of the same layers on the same tokens, with PyTorch's gradients (make_sign_round.py): learned
// rounding loses at most a hundredth more.
TEST(LearnedRounding, IsAsGoodAsTheGoldenOne) {
  const Safetensors golden(GoldenFolder("llama-mha") / "sign_round.safetensors");
  Model model(GoldenFolder("llama-mha"));
  std::vector<ScoredSequence> text(8);
  for (int64_t i = 0; i < 400; ++i) text[i / 50].tokens.push_back(static_cast<int32_t>((i * i * 7 + 3 * i) % 95 + 1));
  CalibrationPass calibration(model, text);
  const Plan plan = Plan::Parse("weights=int4/group16+zero");
  for (int layer = 0; layer < 2; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(model.config(), layer)) {
      const std::string key = std::to_string(layer) + "." + std::string(linear.place->tensor);
      if (golden.Find("learned." + key) == nullptr) continue;
      const SecondMoments m = calibration.MomentsOf(layer, InputOf(*linear.place));
      const WeightMatrix& w = WeightsOf(model.layers()[static_cast<size_t>(layer)], linear).stored();
      const auto loss = [&](const QuantizedMatrixBuffer& matrix) {
        std::vector<float> errors(static_cast<size_t>(w.out * w.in)), row(static_cast<size_t>(w.in));
        for (int64_t r = 0; r < w.out; ++r) {
          float* const error = errors.data() + r * w.in;
          DequantizeRow(matrix.view(), r, error);
          RowAsFloat(w, r, row.data());
          for (int64_t i = 0; i < w.in; ++i) error[i] -= row[static_cast<size_t>(i)];
        }
        return OutputError(errors, w.in, m.values);
      };
      const double nearest = ValuesOf<float>(golden, "nearest." + key).front();
      EXPECT_NEAR(loss(QuantizeByRule(w, plan.rules().front(), "layer")), nearest, 1e-3 * nearest) << key;
      const CalibratedRounding rounding(QuantizeMethod::Parse("signround"), m, 1, nullptr, "layer");
      EXPECT_LE(loss(rounding.Round(w, linear.place->weight, plan.rules().front(), "layer")),
                1.01 * double{ValuesOf<float>(golden, "learned." + key).front()})
          << key;
    }
    if (layer == 0) calibration.Advance(0);
  }
}

// What a method does to rotated weights is what it does to such weights whose inputs are rotated as they are: R^T H R.
// Sums round in another order, so that a code near a tie may be its neighbour.
TEST_F(CalibratedRoundingTest, RotatedWeightsHaveRotatedInputs) {
  const Hadamard& rotation = PlanRotation(kIn, {8});
  std::vector<float> r(kIn * kIn);
  for (int64_t i = 0; i < kIn; ++i) {
    r[i * kIn + i] = 1;
    rotation.Rotate(&r[i * kIn], &r[i * kIn]);
  }
  SecondMoments turned = moments_;
  for (int64_t i = 0; i < kIn; ++i) {
    for (int64_t j = 0; j < kIn; ++j) {
      double sum = 0;
      for (int64_t a = 0; a < kIn; ++a) {
        for (int64_t b = 0; b < kIn; ++b)
          sum += double{r[a * kIn + i]} * double{moments_.values[a * kIn + b]} * double{r[b * kIn + j]};
      }
      turned.values[i * kIn + j] = static_cast<float>(sum);
    }
  }
  std::vector<float> w = w_;
  for (int64_t row = 0; row < kOut; ++row) rotation.Rotate(&w[row * kIn], &w[row * kIn]);
  const Plan rotated = Plan::Parse("weights=int4/group8+hadamard8"), plain = Plan::Parse("weights=int4/group8");
  const auto loss = [&](const QuantizedMatrixBuffer& matrix) {
    std::vector<float> errors(w_.size());
    for (int64_t row = 0; row < kOut; ++row) {
      DequantizeRow(matrix.view(), row, &errors[row * kIn]);
      const std::vector<float>& of = matrix.view().rotation != nullptr ? w_ : w;
      for (int64_t i = 0; i < kIn; ++i) errors[row * kIn + i] -= of[row * kIn + i];
    }
    return OutputError(errors, kIn, matrix.view().rotation != nullptr ? moments_.values : turned.values);
  };
  for (const char* method : {"gptq", "signround:20", "rtn+quantease", "awq", "gptq+quantease"}) {
    const auto round = [&](const SecondMoments& m, const Hadamard* by, const std::vector<float>& weights,
                           const Plan& plan) {
      return loss(CalibratedRounding(QuantizeMethod::Parse(method), m, 1, by, "layer")
                      .Round({weights.data(), WeightType::kF32, kOut, kIn}, Site::kVProjW, plan.rules()[0], "layer"));
    };
    const double expected = round(turned, nullptr, w, plain), got = round(moments_, &rotation, w_, rotated);
    EXPECT_NEAR(got, expected, 0.02 * expected) << method;
    EXPECT_GT(loss(QuantizeByRule({w_.data(), WeightType::kF32, kOut, kIn}, rotated.rules()[0], "w")), 1.05 * got)
        << method << ": no better than to nearest";
  }
}

TEST_F(CalibratedRoundingTest, ErrorsNameTheMatrix) {
  w_[5] = std::numeric_limits<float>::infinity();
  for (const char* method : {"awq", "gptq"})
    EXPECT_THAT(Call([&] { Rounded(method, "weights=int4/group16"); }),
                testing::ThrowsMessage<Error>(testing::HasSubstr("layer: weights, row 0")));
}

// Each method is the algorithms that its name says, on the same moments.
constexpr int64_t kWide = 48, kHigh = 21, kInputs = 150;

// Inputs that go together, and their difference from those of another model.
SecondMoments Moments() {
  const std::vector<float> noise = RandomNormal(kInputs * kWide, 1), other = RandomNormal(kInputs * kWide, 2);
  SecondMoments m{.in = kWide, .tokens = kInputs, .values = std::vector<float>(kWide * kWide), .cross = {}};
  m.cross.resize(kWide * kWide);
  for (int64_t t = 0; t < kInputs; ++t) {
    const auto x = [&](int64_t i) { return noise[t * kWide + i] + noise[t * kWide]; };
    for (int64_t i = 0; i < kWide; ++i) {
      for (int64_t j = i; j < kWide; ++j) m.values[i * kWide + j] += x(i) * x(j);
      for (int64_t j = 0; j < kWide; ++j) m.cross[i * kWide + j] += 0.3f * (other[t * kWide + i] + x(i)) * x(j);
    }
  }
  return m;
}

class RoundingMethods : public testing::Test {
 protected:
  std::vector<uint8_t> Codes(const char* method) const {
    return BytesOf(CalibratedRounding(QuantizeMethod::Parse(method), moments_, 1, nullptr, "test")
                       .Round(Weights(), Site::kVProjW, rule_, "test"));
  }
  static std::vector<uint8_t> BytesOf(QuantizedMatrixBuffer matrix) {
    return {matrix.Codes(0), matrix.Codes(0) + matrix.code_bytes()};
  }
  WeightMatrix Weights() const { return {w_.data(), WeightType::kF32, kHigh, kWide}; }
  ReadRow Reader(const std::vector<float>& w) const {
    return [&w](int64_t row, float* y) { std::copy_n(w.data() + row * kWide, kWide, y); };
  }

  SecondMoments moments_ = Moments();
  std::vector<float> w_ = RandomNormal(kHigh * kWide, 3);
  Plan plan_ = Plan::Parse("weights=int4/group16");
  const Rule& rule_ = plan_.rules().front();
  GptqFactor factor_{moments_.values, kWide, kGptqDamping, "test"};
};

TEST_F(RoundingMethods, Gptq) {
  QuantizedMatrixBuffer matrix(Format::kInt4, kHigh, kWide, 16);
  factor_.Round(Reader(w_), EndsBy(ClipChoice::kAbsmax, Format::kInt4), matrix);
  EXPECT_EQ(Codes("gptq"), BytesOf(std::move(matrix)));
}

TEST_F(RoundingMethods, GptaqRoundsTheCorrectedWeights) {
  std::vector<float> corrected = w_;
  AsymmetricTarget(moments_.values, moments_.cross, kWide, kGptqDamping, "test").Correct(kHigh, corrected.data());
  QuantizedMatrixBuffer matrix(Format::kInt4, kHigh, kWide, 16);
  factor_.Round(Reader(corrected), EndsBy(ClipChoice::kAbsmax, Format::kInt4), matrix);
  EXPECT_EQ(Codes("gptaq"), BytesOf(std::move(matrix)));
  EXPECT_NE(Codes("gptaq"), Codes("gptq"));
}

TEST_F(RoundingMethods, QuantEaseFollowsRounding) {
  QuantizedMatrixBuffer matrix = QuantizeByRule(Weights(), rule_, "test");
  QuantEase(moments_.values, kWide, kGptqDamping, "test").Improve(Reader(w_), 6, matrix);
  EXPECT_EQ(Codes("rtn+quantease"), BytesOf(std::move(matrix)));
  EXPECT_NE(Codes("gptq+quantease"), Codes("gptq"));
}

TEST_F(RoundingMethods, BadMomentsAreNamed) {
  moments_.values[0] = -1e9f;
  EXPECT_THAT(Call([&] { Codes("gptq"); }), testing::ThrowsMessage<Error>(testing::HasSubstr("test: ")));
}

}  // namespace
}  // namespace tare
