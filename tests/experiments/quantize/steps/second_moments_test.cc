// SPDX-License-Identifier: Apache-2.0
// Each step is the algorithms that its name says, on the same moments; learned rounding also beside AutoRound's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/quantize/calibrated_layers.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/gptq.h"
#include "quant/algorithms/quantease.h"
#include "quant/algorithms/second_moments.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/random_quantized.h"

namespace tare::second_moments_test {
namespace {

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
      const CalibratedRounding rounding(ParseMethod("signround"), SharedInput(m, 1, nullptr, "layer"));
      EXPECT_LE(loss(rounding.Round(w, linear.place->weight, plan.rules().front(), "layer")),
                1.01 * double{ValuesOf<float>(golden, "learned." + key).front()})
          << key;
    }
    if (layer == 0) calibration.Advance(0);
  }
}

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
    return BytesOf(CalibratedRounding(ParseMethod(method), SharedInput(moments_, 1, nullptr, "test"))
                       .Round(Weights(), Site::kVProjW, rule_, "test"));
  }
  static std::vector<uint8_t> BytesOf(QuantizedMatrixBuffer matrix) {
    return {matrix.Codes(0), matrix.Codes(0) + matrix.code_bytes()};
  }
  DenseMatrix Weights() const { return {w_.data(), WeightType::kF32, kHigh, kWide}; }
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
}  // namespace tare::second_moments_test
