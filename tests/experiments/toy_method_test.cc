// SPDX-License-Identifier: Apache-2.0
// A new quantization method is one record and what it points to, defined here. Its name and options are read, its file
// is made, resumed, swept and exported, while no other code knows it.
//
//   prune[:SHARE]   weights of inputs whose mean square is below SHARE (else 0.25) of the mean over all inputs
//                   become 0; what is left is rounded to nearest
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "experiments/export/compressed_tensors/export.h"
#include "experiments/export/gguf/export.h"
#include "experiments/export/hugging_face.h"
#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/model.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/studies/sweep/sweep.h"
#include "quant/base/message.h"
#include "quant/file/quantized_checkpoint.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/call.h"
#include "tests/support/logits.h"

namespace tare::toy_method_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<bool> Pruned(const SecondMoments& moments, double share) {
  std::vector<double> squares;
  for (int64_t i = 0; i < moments.in; ++i) squares.push_back(moments.values[i * moments.in + i]);
  const double bound = share * std::accumulate(squares.begin(), squares.end(), 0.0) / static_cast<double>(moments.in);
  std::vector<bool> pruned;
  for (const double square : squares) pruned.push_back(square < bound);
  return pruned;
}

InputRounding PruneInputs(SharedInput& input, double share) {
  return {.aim = [pruned = Pruned(input.moments, share)](int64_t out, float* w) {
    for (int64_t at = 0; at < out * std::ssize(pruned); ++at) {
      if (pruned[static_cast<size_t>(at) % pruned.size()]) w[at] = 0;
    }
  }};
}

Step ReadPrune(std::string_view step) {
  const double share = NumberOption<double>(step, "a number").value_or(0.25);
  return {.text = share == 0.25 ? "prune" : Formatted("prune:{}", share),
          .on_input = [share](SharedInput& input) { return PruneInputs(input, share); }};
}

constexpr StepKind kPruneStep{"prune", StepPlace::kCodes, ReadPrune, "[:SHARE]"};
constexpr const StepKind* kKinds[] = {&kHadamardStep, &kPruneStep, &kQuantEaseStep};

// Rows of 32 and 64 weights, which every writer takes.
const std::filesystem::path kModel = TARE_SOURCE_DIR "/tests/data/gguf/llama-linear.gguf";

class ToyMethodTest : public testing::Test {
 protected:
  ToyMethodTest() { WriteCalibrationIds(folder_ / "ids.h5"); }

  QuantizeJob Job(const char* method) const {
    return {.model = kModel,
            .plan = Plan::Parse("weights=int4/group32"),
            .out = folder_ / "g.h5",
            .method = ParseMethod(method, kKinds),
            .calibration = folder_ / "ids.h5"};
  }
  std::vector<float> Logits(const std::filesystem::path& path) const {
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{1, 5, 9, 2, 77, 30});
    Model model(path);
    return LogitsOf(model, batch);
  }

  const TemporaryFolder folder_;
};

TEST_F(ToyMethodTest, IsParsedByItsName) {
  EXPECT_EQ(ParseMethod("hadamard:3+prune:0.25+quantease", kKinds).Text(), "hadamard:3+prune+quantease");
  EXPECT_EQ(StepsWithText(kKinds), "prune and quantease");
  EXPECT_THAT(Call([] { ParseMethod("gptq", kKinds); }),
              ThrowsMessage<Error>(HasSubstr("expected hadamard[:SEED], prune[:SHARE] or quantease, joined by +")));
  QuantizeJob job = Job("prune");
  job.calibration = {};
  EXPECT_THAT([&] { Quantize(job, {}); },
              ThrowsMessage<Error>("--calibrate: got no text for prune, expected one; try --calibrate TEXT"));
}

// The first layer's inputs are those of the stored model.
TEST_F(ToyMethodTest, RoundsEachMatrixByItsInput) {
  Quantize(Job("prune:0.8"), {});
  const QuantizedCheckpoint file(folder_ / "g.h5");
  EXPECT_EQ(file.provenance().method, "prune:0.8");
  Model model(kModel);
  CalibrationPass calibration(model, CutCalibration(folder_ / "ids.h5", kModel, model.config(), {}).sequences);
  const std::vector<bool> pruned = Pruned(calibration.MomentsOf(0, Site::kQProjIn), 0.8);
  const WeightMatrix& q = model.layers()[0].q.stored();
  std::vector<float> w(static_cast<size_t>(q.out * q.in));
  for (int64_t row = 0; row < q.out; ++row) RowAsFloat(q, row, &w[row * q.in]);
  const auto zeros = std::ranges::count(pruned, true);
  EXPECT_GT(zeros, 0);
  EXPECT_LT(zeros, q.in);
  for (size_t at = 0; at < w.size(); ++at) w[at] *= pruned[at % pruned.size()] ? 0.0f : 1.0f;
  const Plan plan = Plan::Parse("weights=int4/group32");
  const QuantizedMatrixBuffer expected =
      QuantizeByRule(DenseMatrix{w.data(), WeightType::kF32, q.out, q.in}, plan.rules().front(), "q");
  const QuantizedMatrix& got = file.matrices().at("model.layers.0.self_attn.q_proj.weight");
  EXPECT_TRUE(std::equal(got.codes, got.codes + expected.code_bytes(), expected.view().codes));
}

TEST_F(ToyMethodTest, IsResumed) {
  const QuantizeJob job = Job("hadamard+prune");
  Quantize(job, {});
  const std::string whole = GetFile(job.out);
  for (const char* part : {"prepared.h5", "layer-0.h5"})
    ExpectSameBytesAfter(StopOnce(folder_ / "g.h5.parts" / part), job, whole, folder_);
}

TEST_F(ToyMethodTest, ItsFileIsSwept) {
  Quantize(Job("prune"), {});
  const SweepOptions options{.models = {kModel, folder_ / "g.h5"},
                             .question = {.bits = {16}},
                             .tasks = ParseTasks("perplexity=" + (folder_ / "ids.h5").string()),
                             .folder = folder_ / "sweep"};
  const std::vector<SweepCell> cells = RunSweep(options, [](const std::string&, int64_t) { return Progress(); });
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[1].model, "g.h5");
  EXPECT_NE(cells[0].result, cells[1].result);
}

TEST_F(ToyMethodTest, ItsFileIsExported) {
  Quantize(Job("prune"), {});
  const std::vector<float> logits = Logits(folder_ / "g.h5");
  EXPECT_NE(logits, Logits(kModel));
  ExportDequantized(folder_ / "g.h5", kModel, folder_ / "folder");  // its values in the model's bf16
  EXPECT_THAT(Logits(folder_ / "folder"), testing::Pointwise(testing::FloatNear(0.02f), logits));
  ExportCompressed(folder_ / "g.h5", folder_ / "compressed", "1");
  EXPECT_EQ(Logits(folder_ / "compressed"), logits);
  ConvertToGguf(folder_ / "g.h5", "F32", "1", folder_ / "m.gguf");
  EXPECT_EQ(Logits(folder_ / "m.gguf"), logits);
}

}  // namespace
}  // namespace tare::toy_method_test
