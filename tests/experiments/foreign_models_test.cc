// SPDX-License-Identifier: Apache-2.0
// Llamas that other tools quantized: vocabulary logits within 2e-5 of what transformers computes from the dequantized
// weights, the effect of reordered f32 sums, and the same whether dequantized weights are kept or made for each call.
// On the integer kernels they differ from that as Tare's own files do (plan_run_test.cc).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/plan_run.h"
#include "quant/checkpoint/matrix_parts.h"
#include "tests/support/call.h"
#include "tests/support/compare.h"
#include "tests/support/foreign_folder.h"
#include "tests/support/logits.h"

namespace tare::foreign_models_test {
namespace {

constexpr const char* kModels[] = {"llama-gptq",
                                   "llama-gptq-named-wrong",
                                   "llama-awq",
                                   "llama-auto-round",
                                   "llama-compressed-int4",
                                   "llama-compressed-w8a8",
                                   "llama-compressed-fp8",
                                   "llama-compressed-nvfp4",
                                   "llama-fp8",
                                   "llama-modelopt-nvfp4",
                                   "llama-nf4",
                                   "llama-mlx"};

TokenBatch BatchOf(const Safetensors& file) {
  const auto ids = ValuesOf<int64_t>(file, "input_ids");
  const int64_t length = file.Find("input_ids")->shape[1];
  TokenBatch batch;
  for (int64_t first = 0; first < std::ssize(ids); first += length)
    batch.Add(first / length, std::vector<int32_t>(ids.begin() + first, ids.begin() + first + length));
  return batch;
}

TEST(ForeignModels, LogitsAreThoseOfTheDequantizedWeights) {
  for (const char* name : kModels) {
    const Safetensors file(ForeignFolder(name) / "expected.safetensors");
    const auto expected = ValuesOf<float>(file, "logits");
    Model kept(ForeignFolder(name)), made(ForeignFolder(name), Math::kF32, {.converted = 0});
    const std::vector<float> logits = LogitsOf(kept, BatchOf(file));
    EXPECT_TRUE(AllNear(logits, expected, 2e-5)) << name;
    EXPECT_EQ(LogitsOf(made, BatchOf(file)), logits) << name;
  }
}

// Kernels decode rows of codes of four bits in a row's bytes: to the bit, as the matrix does it, several rows at once.
TEST(ForeignModels, RowsThatKernelsDecodeAreTheMatrixs) {
  std::set<std::string> decoded;
  for (const char* name : {"llama-gptq", "llama-compressed-int4", "llama-compressed-nvfp4", "llama-modelopt-nvfp4",
                           "llama-nf4", "llama-mlx", "compressed-packed-0.18", "compressed-bytes",
                           "../golden/gpt-oss-mxfp4", "../golden/motif3-nvfp4"}) {
    const Checkpoint checkpoint(ForeignFolder(name));
    for (const std::string& tensor : checkpoint.names()) {
      const ForeignMatrix* const whole = checkpoint.FindForeign(tensor);
      if (whole == nullptr || whole->out() < 3) continue;
      const ForeignRows matrix(*whole, 1, whole->out() - 1);
      if (matrix.Nibbles(0)) decoded.insert(std::string(name) + ": " + matrix.scheme());
      const std::vector<float> expected = RowsOf(matrix);
      std::vector<float> rows(expected.size(), 99.0f);
      RowsAsFloat(WeightMatrix(&matrix), 0, matrix.out(), rows.data(), tensor);
      EXPECT_EQ(std::memcmp(rows.data(), expected.data(), rows.size() * sizeof(float)), 0) << name << " " << tensor;
    }
  }
  EXPECT_EQ(
      decoded,
      (std::set<std::string>{
          "../golden/gpt-oss-mxfp4: gpt-oss mxfp4", "../golden/motif3-nvfp4: ModelOpt nvfp4/group16",
          "compressed-bytes: compressed-tensors mxfp4/group32", "compressed-bytes: compressed-tensors nvfp4/group16",
          "compressed-packed-0.18: compressed-tensors int4/group32",
          "llama-compressed-int4: compressed-tensors int4/group32",
          "llama-compressed-nvfp4: compressed-tensors nvfp4/group16", "llama-modelopt-nvfp4: ModelOpt nvfp4/group16"}));
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(sum);
}

std::vector<float> Under(Model& model, const TokenBatch& batch, const char* plan, Carrying carrying) {
  PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
  return LogitsOf(model, batch, run.Begin(model));
}

constexpr const char* kInputs = "linear_in=int8/token";

// Every scheme but those of floats, and a GGUF file of several types. Of one row the inputs are rounded to 15 bits, 128
// times finer than to 8; an eighth leaves room for the few values of one row.
TEST(ForeignModels, IntegerKernelsTakeTheirCodes) {
  std::vector<std::filesystem::path> paths{std::filesystem::path(TARE_SOURCE_DIR) /
                                           "tests/data/gguf/llama-q4_k_m.gguf"};
  for (const std::string name : kModels) {
    if (!name.ends_with("fp8") && !name.ends_with("nf4")) paths.push_back(ForeignFolder(name));
  }
  TokenBatch batch, row;
  batch.Add(0, std::vector<int32_t>{1, 5, 9, 20, 33, 2, 7, 40, 11, 3, 8, 21});
  row.Add(0, std::vector<int32_t>{5});
  for (const std::filesystem::path& path : paths) {
    for (const int64_t most_kept : {Weights::kMostKept, int64_t{0}}) {
      Model model(path, Math::kF32, {.converted = most_kept});
      const std::vector<float> f32 = Under(model, batch, "", Carrying::kSimulated),
                               simulated = Under(model, batch, kInputs, Carrying::kSimulated),
                               executed = Under(model, batch, kInputs, Carrying::kExecuted);
      const double effect = Distance(simulated, f32);
      EXPECT_GT(effect, 0) << path;
      EXPECT_GT(Distance(executed, simulated), 0) << path << ": not the simulation run twice";
      EXPECT_LT(Distance(executed, simulated), effect) << path;
      const std::vector<float> of_row = Under(model, row, "", Carrying::kSimulated);
      const double apart = Distance(Under(model, row, "", Carrying::kExecuted), of_row);
      EXPECT_GT(apart, 0) << path << ": codes of weights are not read";
      EXPECT_LT(apart, Distance(Under(model, row, kInputs, Carrying::kSimulated), of_row) / 8) << path;
    }
  }
}

TEST(ForeignModels, CodesThatAreNoIntegersAreRefusedByName) {
  const Model model(ForeignFolder("llama-nf4"));
  EXPECT_THAT(Call([&] { PlanRun(Plan::Parse(kInputs), Carrying::kExecuted, ModelSitesOf(model)); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "got layer 0, q_proj.w in bitsandbytes nf4/block64, whose codes are no integers in equal groups")));
}

}  // namespace
}  // namespace tare::foreign_models_test
