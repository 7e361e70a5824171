// SPDX-License-Identifier: Apache-2.0
// Which steps act on which matrix; the algorithms have tests of their own.
#include "experiments/quantize/calibrated_rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "quant/base/error.h"
#include "tests/support/call.h"
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
    const CalibratedRounding rounding(QuantizeMethod::Parse(method), moments_, "layer");
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

TEST_F(CalibratedRoundingTest, ErrorsNameTheMatrix) {
  w_[5] = std::numeric_limits<float>::infinity();
  for (const char* method : {"awq", "gptq"})
    EXPECT_THAT(Call([&] { Rounded(method, "weights=int4/group16"); }),
                testing::ThrowsMessage<Error>(testing::HasSubstr("layer: weights, row 0")));
}

}  // namespace
}  // namespace tare
