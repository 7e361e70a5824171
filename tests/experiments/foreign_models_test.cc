// SPDX-License-Identifier: Apache-2.0
// Llamas that other tools quantized: vocabulary logits within 2e-5 of what transformers computes from the dequantized
// weights, the effect of reordered f32 sums, and the same whether dequantized weights are kept or made for each call.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/foreign_folder.h"
#include "tests/support/logits.h"

namespace tare {
namespace {

constexpr const char* kModels[] = {"llama-gptq",
                                   "llama-gptq-named-wrong",
                                   "llama-awq",
                                   "llama-auto-round",
                                   "llama-compressed-int4",
                                   "llama-compressed-w8a8",
                                   "llama-compressed-fp8",
                                   "llama-compressed-nvfp4",
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
    Model kept(ForeignFolder(name)), made(ForeignFolder(name), Math::kF32, 0);
    const std::vector<float> logits = LogitsOf(kept, BatchOf(file));
    EXPECT_TRUE(AllNear(logits, expected, 2e-5)) << name;
    EXPECT_EQ(LogitsOf(made, BatchOf(file)), logits) << name;
  }
}

}  // namespace
}  // namespace tare
