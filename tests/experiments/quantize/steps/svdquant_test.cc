// SPDX-License-Identifier: Apache-2.0
// The step on a matrix, and its files: run, simulated and executed, and refused by what has no branch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/export/compressed_tensors/export.h"
#include "experiments/export/gguf/export.h"
#include "experiments/export/hugging_face.h"
#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/linear/weights.h"
#include "experiments/model/plan_run.h"
#include "experiments/observe/description.h"
#include "experiments/quantize/steps/smoothquant.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/low_rank.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/file/quantized_checkpoint.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"

namespace tare::svdquant_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kOut = 21, kIn = 48;

QuantizedMatrixBuffer Rounded(const char* method, const std::vector<float>& w, const char* plan) {
  const Plan parsed = Plan::Parse(plan);
  return ParseMethod(method).codes->on_matrix(DenseMatrix{w.data(), WeightType::kF32, kOut, kIn},
                                              parsed.rules().front(), "test", {});
}

double BranchAt(const LowRank& branch, int64_t row, int64_t i) {
  double sum = 0;
  for (int64_t k = 0; k < branch.rank; ++k)
    sum += double{FloatFromBf16(branch.up[row * branch.rank + k])} * double{FloatFromBf16(branch.down[k * kIn + i])};
  return sum;
}

// A few channels are far larger than all others, as smoothing leaves them.
std::vector<float> WithOutliers() {
  std::vector<float> w = RandomNormal(kOut * kIn, 1);
  for (int64_t row = 0; row < kOut; ++row) w[row * kIn + 5] *= 40, w[row * kIn + 30] *= 25;
  return w;
}

// The branch is the nearest of its rank, to bf16; codes are of the rest, to nearest; values are the sum of both.
TEST(SvdQuant, RoundsWhatTheBranchLeaves) {
  const std::vector<float> w = WithOutliers();
  for (const char* plan : {"weights=int4/group16", "weights=int4/channel+hadamard16", "weights=nvfp4"}) {
    const QuantizedMatrixBuffer matrix = Rounded("svdquant:3", w, plan);
    const QuantizedMatrix& m = matrix.view();
    ASSERT_EQ(m.branch.rank, 3);
    const ThinFactors exact = NearestOfRank(w.data(), kOut, kIn, 3, "test");
    std::vector<float> rest(w.size()), values(kIn), of_codes(kIn);
    for (int64_t row = 0; row < kOut; ++row) {
      for (int64_t i = 0; i < kIn; ++i) {
        double low = 0, magnitude = 0;
        for (int64_t k = 0; k < 3; ++k) {
          const double term = exact.up[row * 3 + k] * exact.down[k * kIn + i];
          low += term, magnitude += std::abs(term);
        }
        EXPECT_NEAR(BranchAt(m.branch, row, i), low, 0x1.02p-7 * magnitude);  // two roundings to bf16
        rest[row * kIn + i] = static_cast<float>(w[row * kIn + i] - BranchAt(m.branch, row, i));
      }
    }
    const Plan parsed = Plan::Parse(plan);
    const QuantizedMatrixBuffer nearest =
        QuantizeByRule(DenseMatrix{rest.data(), WeightType::kF32, kOut, kIn}, parsed.rules().front(), "test");
    for (int64_t row = 0; row < kOut; ++row) {
      DequantizeRow(m, row, values.data());
      DequantizeRow(nearest.view(), row, of_codes.data());
      for (int64_t i = 0; i < kIn; ++i)
        EXPECT_NEAR(values[i], of_codes[i] + BranchAt(m.branch, row, i), 1e-4) << plan << ' ' << row << ' ' << i;
    }
    EXPECT_EQ(m.Bytes(), nearest.view().Bytes() + 2 * 3 * (kOut + kIn)) << plan;
  }
}

TEST(SvdQuant, LosesLessWithEveryRank) {
  const std::vector<float> w = WithOutliers();
  double before = INFINITY;
  for (const char* method : {"svdquant:1", "svdquant:2", "svdquant:8", "svdquant:21"}) {
    const QuantizedMatrixBuffer matrix = Rounded(method, w, "weights=int4/channel");
    std::vector<float> values(kIn);
    double error = 0;
    for (int64_t row = 0; row < kOut; ++row) {
      DequantizeRow(matrix.view(), row, values.data());
      for (int64_t i = 0; i < kIn; ++i) error += std::pow(double{values[i]} - double{w[row * kIn + i]}, 2);
    }
    EXPECT_LT(error, before) << method;
    before = error;
  }
  const std::vector<float> zeros(kOut * kIn);
  const QuantizedMatrixBuffer none = Rounded("svdquant:21", zeros, "weights=int4/group16");
  std::vector<float> values(kIn, 1.0f);
  DequantizeRow(none.view(), 7, values.data());
  EXPECT_EQ(values, std::vector<float>(kIn));
}

TEST(SvdQuant, RefusesWhatItCannotDo) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* golden, const char* method, const char* plan) {
    return Call([=, &folder] {
      Quantize({GoldenFolder(golden), Plan::Parse(plan), folder / "q.h5", ParseMethod(method)}, {});
    });
  };
  EXPECT_THAT(refused("diffllama-mha", "svdquant:9999", "weights=int4/group16"),
              ThrowsMessage<Error>(AllOf(HasSubstr("svdquant:9999"), HasSubstr("try svdquant:"))));
  EXPECT_THAT(refused("mixtral", "svdquant:2", "weights=int4/group16"), ThrowsMessage<Error>(HasSubstr("try gptq")));
  for (const auto& [method, text] : {std::pair{"svdquant:0", "a whole number from 1"},
                                     {"svdquant:x", "a whole number from 1"},
                                     {"awq+svdquant", "try smoothquant+svdquant"},
                                     {"svdquant+quantease", "try gptq+quantease"},
                                     {"svdquant+gptq", "two steps that round"}})
    EXPECT_THAT(Call([&, method = method] { ParseMethod(method); }), ThrowsMessage<Error>(HasSubstr(text))) << method;
  std::vector<float> w = WithOutliers();
  w[50] = NAN;
  EXPECT_THAT(Call([&] { Rounded("svdquant:2", w, "weights=int4/group16"); }),
              ThrowsMessage<Error>(HasSubstr("expected finite values")));
  EXPECT_EQ(ParseMethod("smoothquant+svdquant:32").Text(), "smoothquant+svdquant");
}

class SvdQuantFile : public testing::Test {
 protected:
  static constexpr const char* kGolden = "llama-mha";
  SvdQuantFile() {
    Quantize({GoldenFolder(kGolden), Plan::Parse("weights=int4/group16"), folder_ / "q.h5", ParseMethod("svdquant:3")},
             {});
  }
  std::vector<float> Logits(const char* plan, Carrying carrying) {
    Model model(folder_ / "q.h5");
    PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
    const SiteVisitors visitors = run.Begin(model);
    return LogitsOf(model, GoldenBatch(kGolden), visitors);
  }
  // Relative to the largest logit.
  static double Difference(const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0, largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
      largest = std::max(largest, std::abs(double{a[i]}));
    }
    return most / largest;
  }
  TemporaryFolder folder_;
};

// Executed, integers multiply the rounded inputs and the branch the inputs themselves; simulated, values with the
// branch multiply the rounded inputs, and the branch what rounding took. Layer 0's inputs are bit for bit the same in
// both, so they differ by f32's sums alone, of which golden models have 2e-5.
TEST_F(SvdQuantFile, TheBranchReadsInputsThatNoRuleHasRounded) {
  constexpr const char* kPlan = "q_proj.in[l0]=int4/token,k_proj.in[l0]=int4/token,v_proj.in[l0]=int4/token";
  const std::vector<float> executed = Logits(kPlan, Carrying::kExecuted),
                           simulated = Logits(kPlan, Carrying::kSimulated);
  EXPECT_LT(Difference(executed, simulated), 1e-4);
  EXPECT_GT(Difference(executed, Logits("", Carrying::kSimulated)), 1e-3);
}

TEST_F(SvdQuantFile, ExecutedWeightsAloneAreValues) {
  EXPECT_LT(Difference(Logits("weights=int4/group16", Carrying::kExecuted), Logits("", Carrying::kSimulated)), 1e-6);
}

TEST_F(SvdQuantFile, HasTheBranchInItsBitsAndValues) {
  const QuantizedCheckpoint file(folder_ / "q.h5");
  EXPECT_NO_THROW(file.Verify());
  const Model model(folder_ / "q.h5");
  const Json described = Describe(model);
  ASSERT_EQ(described["quantized"].size(), file.matrices().size());
  for (const Json& m : described["quantized"]) {
    const QuantizedMatrix& matrix = file.matrices().at(m["tensor"].get<std::string>());
    EXPECT_EQ(m["rank"], 3);
    const double bits =
        4 + 32.0 / 16 +
        16.0 * 3 * static_cast<double>(matrix.out + matrix.in) / static_cast<double>(matrix.out * matrix.in);
    if (matrix.in % 64 == 0) {
      EXPECT_NEAR(m["bits_per_weight"].get<double>(), bits, 1e-9);
    }
  }
  ExportDequantized(folder_ / "q.h5", GoldenFolder(kGolden), folder_ / "values");
  Model values(folder_ / "values");
  EXPECT_LT(Difference(LogitsOf(values, GoldenBatch(kGolden)), Logits("", Carrying::kSimulated)), 1e-6);
}

TEST_F(SvdQuantFile, OtherFormatsOfCodesRefuseIt) {
  EXPECT_THAT(Call([&] { ConvertToGguf(folder_ / "q.h5", "Q8_0", "1", folder_ / "q.gguf"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("low-rank branch"), HasSubstr("GGUF"))));
  EXPECT_THAT(Call([&] { ExportCompressed(folder_ / "q.h5", folder_ / "ct", "1"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("low-rank branch"), HasSubstr("compressed-tensors"))));
}

// The grid of SVDQuant's authors, 21 factors by inputs and weights and 21 by inputs alone, and no factors: each matrix
// is rounded with every one of them.
TEST(SvdQuantSmoothing, SearchesWithTheBranch) {
  Model model(GoldenFolder("llama-mha"));
  const std::vector<ScoredSequence> text = {{.tokens = {1, 5, 9, 2, 40, 17, 3}}};
  const RoundMatrix own = ParseMethod("svdquant:2").codes->on_matrix;
  int calls = 0;
  const RoundMatrix counted = [&](const WeightMatrix& w, const Rule& rule, const std::string& where,
                                  std::span<const float> importance) {
    ++calls;
    return own(w, rule, where, importance);
  };
  const Plan plan = Plan::Parse("down_proj.w[l0]=int4/group16,down_proj.in=int4/token");
  SmoothingOf(model, text, plan, std::nullopt, {}, *std::pmr::new_delete_resource(), counted);
  EXPECT_EQ(calls, 43);
}

}  // namespace
}  // namespace tare::svdquant_test
