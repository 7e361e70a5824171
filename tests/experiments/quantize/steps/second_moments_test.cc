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
#include "quant/format/hadamard.h"
#include "quant/format/pack.h"
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
  std::vector<uint8_t> Codes(const char* method) const { return Codes(method, "weights=int4/group16", nullptr); }
  std::vector<uint8_t> Codes(const char* method, const char* plan, const Hadamard* rotation) const {
    return BytesOf(CalibratedRounding(ParseMethod(method), SharedInput(moments_, 1, rotation, "test"))
                       .Round(Weights(), Site::kVProjW, Plan::Parse(plan).rules().front(), "test"));
  }
  // R^T m R.
  static std::vector<float> Turned(const std::vector<float>& m, const Hadamard& rotation) {
    std::vector<float> turned = m;
    for (int side = 0; side < 2; ++side) {
      for (int64_t i = 0; i < kWide; ++i) rotation.Rotate(&turned[i * kWide], &turned[i * kWide]);
      for (int64_t i = 0; i < kWide; ++i) {
        for (int64_t j = 0; j < i; ++j) std::swap(turned[i * kWide + j], turned[j * kWide + i]);
      }
    }
    return turned;
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

TEST_F(RoundingMethods, QronosTakesTheFirstCodeByItself) {
  const double damping = 1e-6 * LargestEigenvalue(moments_.values, kWide) / MeanOfDiagonal(moments_.values, kWide);
  const GptqFactor factor(moments_.values, kWide, damping, "test");
  std::vector<float> corrected = w_, first(kWide, 0.0f);
  first[static_cast<size_t>(factor.first())] = 1;
  AsymmetricTarget(moments_.values, moments_.cross, kWide, damping, "test", first).Correct(kHigh, corrected.data());
  QuantizedMatrixBuffer matrix(Format::kInt4, kHigh, kWide, 16);
  factor.Round(Reader(corrected), EndsBy(ClipChoice::kAbsmax, Format::kInt4), matrix);
  EXPECT_EQ(Codes("qronos"), BytesOf(std::move(matrix)));
  EXPECT_NE(Codes("qronos"), Codes("gptaq:0.000001"));
  EXPECT_NE(Codes("qronos"), Codes("qronos:stored"));
  EXPECT_NE(Codes("qronos"), Codes("qronos:0.01"));
}

// Rotated weights with moments of rotated inputs are as good as a rule that rotates both: codes differ where f32 rounds
// them apart alone.
TEST_F(RoundingMethods, QronosKnowsRotations) {
  const Hadamard& rotation = PlanRotation(kWide, {.channels = 16});
  moments_.values = BothTriangles(moments_.values, kWide, "test");
  const std::vector<uint8_t> rotated = Codes("qronos", "weights=int4/group16+hadamard16", &rotation);
  moments_ = {.in = kWide,
              .tokens = kInputs,
              .values = Turned(moments_.values, rotation),
              .cross = Turned(moments_.cross, rotation)};
  for (int64_t row = 0; row < kHigh; ++row) rotation.Rotate(&w_[row * kWide], &w_[row * kWide]);
  const std::vector<uint8_t> expected = Codes("qronos");
  int different = 0;
  for (size_t i = 0; i < expected.size(); ++i) different += expected[i] != rotated[i];
  EXPECT_LT(different, 5) << "of " << expected.size();
}

// A code of e8p is of eight weights, of which none is first.
TEST_F(RoundingMethods, QronosTakesOneWeightAtATime) {
  const Plan plan = Plan::Parse("weights=e8p/channel");
  EXPECT_THAT(Call([&] { ParseMethod("qronos").codes->check_rule(plan.rules().front()); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("try gptaq")));
}

// FP-Quant d2e3092's GPTQ with NVFP4 blocks of 16, each run of 16 inputs rotated by Sylvester's matrix without random
// signs (MR-GPTQ, arXiv 2509.23202): the signs of a plan's rotation are folded into weights and inputs.
TEST(MrGptq, HasTheCodesOfItsAuthors) {
  const Safetensors golden(TARE_SOURCE_DIR "/tests/data/formats/weights.safetensors");
  constexpr int64_t kOut = 12, kIn = 32, kTokens = 200;
  const Plan plan = Plan::Parse("weights=nvfp4+hadamard16");
  const Hadamard& rotation = *plan.rules().front().options.Rotation(kIn);
  const std::vector<float> x = ValuesOf<float>(golden, "x");
  std::vector<float> w = ValuesOf<float>(golden, "w");
  SecondMoments m{.in = kIn, .tokens = kTokens, .values = std::vector<float>(kIn * kIn), .cross = {}};
  for (int64_t i = 0; i < kIn * kIn; ++i) {
    const int64_t a = i / kIn, b = i % kIn;
    double sum = 0;
    for (int64_t t = 0; t < kTokens; ++t) sum += double{x[t * kIn + a]} * double{x[t * kIn + b]};
    m.values[i] = static_cast<float>(sum) * rotation.signs()[a] * rotation.signs()[b];
  }
  for (int64_t i = 0; i < std::ssize(w); ++i) w[i] *= rotation.signs()[i % kIn];
  QuantizedMatrixBuffer made =
      CalibratedRounding(ParseMethod("gptq:stored"), SharedInput(m, 1, &rotation, "golden"))
          .Round(DenseMatrix{w.data(), WeightType::kF32, kOut, kIn}, Site::kVProjW, plan.rules().front(), "golden");
  const auto values = ValuesOf<float>(golden, "mrgptq_values"), scales = ValuesOf<float>(golden, "mrgptq_scale");
  std::vector<float> codes(kIn);
  for (int64_t row = 0; row < kOut; ++row) {
    Unpack<float>(made.view().format, {made.Codes(row), made.view().RowBytes()}, codes);
    for (int64_t i = 0; i < kIn; ++i) EXPECT_EQ(codes[i], values[row * kIn + i]) << row << ' ' << i;
    for (int64_t g = 0; g < 2 && row > 0; ++g)  // a row of zeros has scale 1 there, 0 here
      EXPECT_NEAR(made.view().ScaleOf(row, g), scales[row * 2 + g], 0x1p-20f * scales[row * 2 + g]) << row;
  }
}

// Moments of zeros are those of a layer that nothing reaches: to nearest.
TEST_F(RoundingMethods, QronosOfNothingRoundsToNearest) {
  std::ranges::fill(moments_.values, 0.0f);
  std::ranges::fill(moments_.cross, 0.0f);
  EXPECT_EQ(Codes("qronos"), Codes("rtn"));
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
