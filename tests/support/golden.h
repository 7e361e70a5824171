// SPDX-License-Identifier: Apache-2.0
// The golden checkpoints in tests/data/golden and the results of transformers for them.
#pragma once

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "quant/base/message.h"
#include "quant/file/safetensors.h"

namespace tare {

inline constexpr std::array kGoldenCheckpoints = {
    "llama-mha",      "llama-gqa",     "llama-old-config", "diffllama-mha",
    "diffllama-gqa",  "qwen2",         "mistral",          "qwen3",
    "olmo2",          "gemma3",        "qwen3-gate-head",  "qwen3-gate-element",
    "diff-v1-mha",    "diff-v1-gqa",   "diff-v2-gqa",      "motif",
    "motif-gda",      "phi4flash",     "phi4flash-biases", "phi4flash-bare",
    "gpt-oss",        "gpt-oss-mxfp4", "smollm3",          "granite",
    "phi3",           "olmo3",         "ministral",        "mixtral",
    "qwen3-moe",      "mamba2",        "mamba2-groups",    "diffmamba2",
    "diffmamba2-all", "motif3",        "motif3-nvfp4"};
// Those with results under quantized attention logits.
inline constexpr std::array kGoldenQuantized = {"llama-mha", "llama-gqa", "llama-old-config", "diffllama-mha",
                                                "diffllama-gqa"};

inline std::filesystem::path GoldenFolder(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/golden" / name;
}
// Lines of lm-evaluation-harness's tasks and of its logs.
inline std::filesystem::path HarnessFile(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/harness" / name;
}
inline std::filesystem::path PairFolder(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "experiments/pair" / name;
}

template <typename T>
std::vector<T> ValuesOf(const Safetensors& file, const std::string& name) {
  const TensorView* tensor = file.Find(name);
  if (tensor == nullptr) Fail("golden tensor {} is missing", name);
  std::vector<T> values(tensor->bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

}  // namespace tare
