// SPDX-License-Identifier: Apache-2.0
// Models of every architecture that llama.cpp's converter wrote (tests/data/gguf) have the logits that transformers
// computes from their source, within the tolerance of parity_test.cc; so has a quantized one, of the values that its
// codes stand for, whether its matrices are kept in floating point or made for each call.
#include <gtest/gtest.h>

#include "experiments/model/model.h"
#include "tests/support/compare.h"
#include "tests/support/logits.h"

namespace tare::gguf_parity_test {
namespace {

constexpr double kTolerance = 2e-5;

std::filesystem::path Golden(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / name;
}

testing::AssertionResult HasReferenceLogits(const std::string& name, int64_t most_kept) {
  const Safetensors expected(Golden(name + ".safetensors"));
  Model model(Golden(name + ".gguf"), Math::kF32, {.converted = most_kept});
  const auto ids = ValuesOf<int64_t>(expected, "input_ids");
  const int64_t B = expected.Find("input_ids")->shape[0], T = expected.Find("input_ids")->shape[1];
  TokenBatch batch;
  for (int64_t b = 0; b < B; ++b) batch.Add(b, std::vector<int32_t>(ids.begin() + b * T, ids.begin() + (b + 1) * T));
  return AllNear(LogitsOf(model, batch), ValuesOf<float>(expected, "logits"), kTolerance);
}

class GgufParityTest : public testing::TestWithParam<const char*> {};

TEST_P(GgufParityTest, Logits) { EXPECT_TRUE(HasReferenceLogits(GetParam(), Weights::kMostKept)); }
TEST_P(GgufParityTest, LogitsOfMatricesMadeForEachCall) { EXPECT_TRUE(HasReferenceLogits(GetParam(), 0)); }

INSTANTIATE_TEST_SUITE_P(Golden, GgufParityTest,
                         testing::Values("llama", "llama-linear", "llama-yarn", "llama-q4_k_m", "mixtral", "qwen2",
                                         "qwen3", "qwen3moe", "olmo2", "olmo3", "gemma3", "smollm3", "granite", "phi3",
                                         "gpt-oss"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// The blocks of gpt-oss's own checkpoint, gate and up in tensors of their own: the same values, multiplied alike.
TEST(GgufParity, ExpertsInMxfp4AreThoseOfTheFolder) {
  const TokenBatch batch = GoldenBatch("gpt-oss-mxfp4");
  Model folder(GoldenFolder("gpt-oss-mxfp4")), file(Golden("gpt-oss-mxfp4.gguf"));
  EXPECT_EQ(LogitsOf(file, batch), LogitsOf(folder, batch));
}

}  // namespace
}  // namespace tare::gguf_parity_test
