// SPDX-License-Identifier: Apache-2.0
// Each method is the algorithms that its name says, on the same moments.
#include "experiments/quantize/calibrated_rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/model/planned_linear.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare {
namespace {

constexpr int64_t kIn = 48, kOut = 21, kTokens = 150;

// Inputs that go together, and their difference from those of another model.
SecondMoments Moments() {
  const std::vector<float> noise = RandomNormal(kTokens * kIn, 1), other = RandomNormal(kTokens * kIn, 2);
  SecondMoments m{.in = kIn, .tokens = kTokens, .values = std::vector<float>(kIn * kIn), .cross = {}};
  m.cross.resize(kIn * kIn);
  for (int64_t t = 0; t < kTokens; ++t) {
    const auto x = [&](int64_t i) { return noise[t * kIn + i] + noise[t * kIn]; };
    for (int64_t i = 0; i < kIn; ++i) {
      for (int64_t j = i; j < kIn; ++j) m.values[i * kIn + j] += x(i) * x(j);
      for (int64_t j = 0; j < kIn; ++j) m.cross[i * kIn + j] += 0.3f * (other[t * kIn + i] + x(i)) * x(j);
    }
  }
  return m;
}

class CalibratedRoundingTest : public testing::Test {
 protected:
  std::vector<uint8_t> Codes(const char* method) const {
    return BytesOf(CalibratedRounding(QuantizeMethod::Parse(method), moments_, "test").Round(Weights(), rule_, "test"));
  }
  static std::vector<uint8_t> BytesOf(QuantizedMatrixBuffer matrix) {
    return {matrix.Codes(0), matrix.Codes(0) + matrix.code_bytes()};
  }
  WeightMatrix Weights() const { return {w_.data(), WeightType::kF32, kOut, kIn}; }
  ReadRow Reader(const std::vector<float>& w) const {
    return [&w](int64_t row, float* y) { std::copy_n(w.data() + row * kIn, kIn, y); };
  }

  SecondMoments moments_ = Moments();
  std::vector<float> w_ = RandomNormal(kOut * kIn, 3);
  Plan plan_ = Plan::Parse("weights=int4/group16");
  const Rule& rule_ = plan_.rules().front();
  GptqFactor factor_{moments_.values, kIn, kGptqDamping, "test"};
};

TEST_F(CalibratedRoundingTest, Gptq) {
  QuantizedMatrixBuffer matrix(Format::kInt4, kOut, kIn, 16);
  factor_.Round(Reader(w_), ClipChoice::kAbsmax, matrix);
  EXPECT_EQ(Codes("gptq"), BytesOf(std::move(matrix)));
}

TEST_F(CalibratedRoundingTest, GptaqRoundsTheCorrectedWeights) {
  std::vector<float> corrected = w_;
  AsymmetricTarget(moments_.values, moments_.cross, kIn, kGptqDamping, "test").Correct(kOut, corrected.data());
  QuantizedMatrixBuffer matrix(Format::kInt4, kOut, kIn, 16);
  factor_.Round(Reader(corrected), ClipChoice::kAbsmax, matrix);
  EXPECT_EQ(Codes("gptaq"), BytesOf(std::move(matrix)));
  EXPECT_NE(Codes("gptaq"), Codes("gptq"));
}

TEST_F(CalibratedRoundingTest, QuantEaseFollowsRounding) {
  QuantizedMatrixBuffer matrix = QuantizeByRule(Weights(), rule_, "test");
  QuantEase(moments_.values, kIn, kGptqDamping, "test").Improve(Reader(w_), 6, matrix);
  EXPECT_EQ(Codes("rtn+quantease"), BytesOf(std::move(matrix)));
  EXPECT_NE(Codes("gptq+quantease"), Codes("gptq"));
}

TEST_F(CalibratedRoundingTest, BadMomentsAreNamed) {
  moments_.values[0] = -1e9f;
  EXPECT_THAT(Call([&] { Codes("gptq"); }), testing::ThrowsMessage<Error>(testing::HasSubstr("test: ")));
}

}  // namespace
}  // namespace tare
