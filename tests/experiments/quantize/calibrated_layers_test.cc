// SPDX-License-Identifier: Apache-2.0
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
// Which steps act on which matrix; the algorithms have tests of their own.
#include "experiments/quantize/calibrated_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "experiments/model/model.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/second_moments.h"
#include "quant/base/message.h"
#include "quant/format/hadamard.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"

namespace tare::calibrated_layers_test {
namespace {

// Progress counts the bytes read, then the batches of every pass, then the layers written.
TEST(CalibratedLayers, ProgressCountsBatches) {
  const TemporaryFolder folder;
  WriteCalibrationIds(folder / "ids.h5");
  for (const auto& [golden, plan, method] : {std::tuple{"llama-gqa", "weights=int4/group16", "gptq"},
                                             {"llama-gqa", "weights=int4/tensor", "rtn"},
                                             {"llama-gqa", "down_proj.w=int4/group16", "gptq"},
                                             {"llama-gqa", "weights=int4/group16", "gptaq"},
                                             {"gpt-oss", "weights=int4/group16", "gptq"},
                                             {"gpt-oss", "weights=int4/group16", "gptaq"},
                                             {"llama-gqa", "weights=int4/group16", "autoround:3"},
                                             {"qwen3", "q_proj.w[l1]=int4/group16", "autoround:3"}}) {
    std::vector<std::string> units;
    int64_t last = 0, all = 0;
    const auto progress = [&](int64_t done, int64_t total, const char* unit) {
      if (units.empty() || units.back() != unit) {
        EXPECT_EQ(last, all) << unit;
        units.emplace_back(unit);
        last = 0;
      }
      EXPECT_GT(done, last);
      last = done;
      all = total;
    };
    Quantize({.model = GoldenFolder(golden),
              .plan = Plan::Parse(plan),
              .out = folder / "q.h5",
              .method = ParseMethod(method),
              .calibration = folder / "ids.h5"},
             progress);
    EXPECT_EQ(last, all);
    EXPECT_THAT(units, testing::ElementsAre("bytes", "batches", "layers written")) << plan;
  }
}

// States are on a disk, which is asked for their room before the first batch.
TEST(CalibratedLayers, DisksWithoutRoomForStatesAreRefusedBeforeCalibration) {
  const TemporaryFolder folder;
  const QuantizeJob job = Calibrated("gptq", "llama-mha", "weights=int4/channel", folder);
  bool calibrates = false;
  const FileSizeLimit limit(20000);
  EXPECT_THAT([&] { Quantize(job, [&](int64_t, int64_t, std::string_view unit) { calibrates |= unit == "batches"; }); },
              testing::ThrowsMessage<Error>(testing::AllOf(
                  testing::HasSubstr(folder.path().string() + ": cannot hold "),
                  testing::HasSubstr("in a temporary file"), testing::HasSubstr("try a folder with more space"))));
  EXPECT_FALSE(calibrates);
  EXPECT_THAT(folder.Names(), testing::ElementsAre("ids.h5"));
}

// The layers' targets are those of the stored model: a layer makes up for those before it.
TEST(CalibratedLayers, LayersLearnedTogetherLoseLessThanTheNearest) {
  const TemporaryFolder folder;
  TokenBatch batch;  // of the calibration's ids, whose error is what is learned from
  std::vector<int32_t> tokens;
  for (int i = 0; i < 50; ++i) tokens.push_back((i * i * 7 + 3 * i) % 95 + 1);
  batch.Add(0, tokens);
  Model stored(GoldenFolder("diffllama-gqa"));
  const std::vector<float> exact = LogitsOf(stored, batch);
  const auto distance = [&](const QuantizeJob& job) {
    Quantize(job, {});
    Model model(folder / "g.h5");
    const std::vector<float> logits = LogitsOf(model, batch);
    double sum = 0;
    for (size_t i = 0; i < exact.size(); ++i)
      sum += (double{logits[i]} - double{exact[i]}) * (double{logits[i]} - double{exact[i]});
    return sum;
  };
  const QuantizeJob learned = Calibrated("autoround:100", "diffllama-gqa", "weights=int4/group16", folder);
  QuantizeJob nearest = learned;
  nearest.method = ParseMethod("rtn");
  nearest.calibration = {};
  const double least = distance(nearest);
  EXPECT_LT(distance(learned), 0.7 * least);
}

// Every method's figure is one and the same: the states after every layer of the file's model and of the stored one.
TEST(CalibratedLayers, OutputErrorsAreThoseOfTheStates) {
  const TemporaryFolder folder;
  for (const char* method : {"rtn", "gptq", "gptaq", "qronos", "autoround:3"}) {
    const QuantizeJob job = Calibrated(method, "llama-gqa", "weights=int4/group16", folder);
    const QuantizeSummary summary = Quantize(job, {});
    Model stored(job.model), made(job.out);
    const auto text = CutCalibration(job.calibration, job.model, stored.config(), {}).sequences;
    CalibrationPass exact(stored, text), rounded(made, text);
    const size_t middle = exact.batches() / 2;
    const int64_t width = stored.config().hidden, tokens = exact.batch(middle).Rows();
    double lost = 0;
    for (int layer = 0; layer < stored.config().layers; ++layer) {
      exact.Advance(layer), rounded.Advance(layer);
      for (int64_t t = 0; t < tokens; ++t) {
        const auto state = [&](const CalibrationPass& of) { return std::span(of.StreamAt(middle) + t * width, width); };
        const std::vector<double> x(state(exact).begin(), state(exact).end()),
            y(state(rounded).begin(), state(rounded).end());
        double error = 0, size = 0;
        for (size_t i = 0; i < x.size(); ++i) error += (x[i] - y[i]) * (x[i] - y[i]), size += x[i] * x[i];
        lost += error / size;
      }
    }
    ASSERT_TRUE(summary.output_error) << method;
    const double expected = std::sqrt(lost / static_cast<double>(tokens * stored.config().layers));
    EXPECT_NEAR(*summary.output_error, expected, 1e-3 * expected) << method;
  }
}

// GPTQ moves weights further than to the nearest, and outputs less; the text changes no code of the nearest.
TEST(CalibratedLayers, OutputErrorsTellMethodsApart) {
  const TemporaryFolder folder;
  QuantizeJob job = Calibrated("rtn", "llama-gqa", "weights=int4/group16", folder);
  const QuantizeSummary nearest = Quantize(job, {});
  const std::string bytes = GetFile(job.out);
  for (const char* method : {"gptq", "gptaq", "qronos"}) {
    job.method = ParseMethod(method);
    const QuantizeSummary moved = Quantize(job, {});
    EXPECT_GT(moved.weight_error, 1.05 * nearest.weight_error) << method;
    EXPECT_LT(*moved.output_error, 0.9 * *nearest.output_error) << method;
    EXPECT_THROW(Quantize(job, StopOnce(folder / "g.h5.parts/layer-0.h5")), Error);
    EXPECT_EQ(Quantize(job, {}).output_error, moved.output_error) << method << " resumed";
  }
  job = Calibrated("rtn", "llama-gqa", "weights=int4/group16", folder);
  job.calibration = {};
  EXPECT_FALSE(Quantize(job, {}).output_error);
  EXPECT_EQ(GetFile(job.out), bytes);
}

}  // namespace
}  // namespace tare::calibrated_layers_test

namespace tare::calibrated_rounding_test {
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
    const CalibratedRounding rounding(ParseMethod(method), SharedInput(moments_, 1, nullptr, "layer"));
    const QuantizedMatrixBuffer matrix =
        rounding.Round(DenseMatrix{w_.data(), WeightType::kF32, kOut, kIn}, weight, parsed.rules().front(), "layer");
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
      return loss(CalibratedRounding(ParseMethod(method), SharedInput(m, 1, by, "layer"))
                      .Round(DenseMatrix{weights.data(), WeightType::kF32, kOut, kIn}, Site::kVProjW, plan.rules()[0],
                             "layer"));
    };
    const double expected = round(turned, nullptr, w, plain), got = round(moments_, &rotation, w_, rotated);
    EXPECT_NEAR(got, expected, 0.02 * expected) << method;
    EXPECT_GT(loss(QuantizeByRule(DenseMatrix{w_.data(), WeightType::kF32, kOut, kIn}, rotated.rules()[0], "w")),
              1.05 * got)
        << method << ": no better than to nearest";
  }
}

TEST_F(CalibratedRoundingTest, ErrorsNameTheMatrix) {
  w_[5] = std::numeric_limits<float>::infinity();
  for (const char* method : {"awq", "gptq"})
    EXPECT_THAT(Call([&] { Rounded(method, "weights=int4/group16"); }),
                testing::ThrowsMessage<Error>(testing::HasSubstr("layer: weights, row 0")));
}

}  // namespace
}  // namespace tare::calibrated_rounding_test
