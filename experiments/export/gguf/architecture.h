// SPDX-License-Identifier: Apache-2.0
// A model's configuration as keys of a GGUF file, and its tensors as the file's: the reverse of
// quant/interchange/gguf/architecture.h. A file can hold models of llama.cpp's architectures, without what llama.cpp
// fixes in its code or has no key or tensor for. It then computes what Tare does, but for the window of a phi3 and yarn
// without truncation in gpt-oss, which it ignores in files of its own converter, too: a notice says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/model/config/config.h"
#include "quant/interchange/gguf/architecture.h"
#include "quant/interchange/gguf/writer.h"

namespace tare {

// GGUF calls a Mistral model a llama. Throws Error, starting with `where`, for a model that a file cannot hold.
const gguf::Architecture& GgufArchitectureOf(const ModelConfig& config, const std::string& where);

// Adds the keys of a model that GgufArchitectureOf accepts.
void AddModelKeys(const ModelConfig& config, const gguf::Architecture& architecture, gguf::MetadataWriter& out);

// ---- Tensors of the file. Each has rows of one tensor of the checkpoint, of a fused tensor's parts (phi3), of all
// experts one after another, or every other row of gpt-oss's gate and up.
//
// `count` rows, or values of a vector, of a tensor of the checkpoint: `first` and every `step`-th row after it.
struct GgufPiece {
  std::string tensor;
  int64_t first = 0, step = 1, count = 0;
};

enum class GgufKind { kEmbedding, kMatrix, kVector };  // what decides its type; the head is a kEmbedding

struct GgufTensor {
  std::string name;
  GgufKind kind = GgufKind::kMatrix;
  std::vector<GgufPiece> pieces;  // its rows, in order
  int64_t experts = 0;            // 0: not of experts
  int64_t rotated_heads = 0;      // whose rows are ordered as in quant/interchange/gguf/architecture.h, or 0
};

// The tensors in the order of the file, without tensors of rotary positions. Throws Error, starting with `where`, for a
// tensor that llama.cpp has no name for.
std::vector<GgufTensor> GgufTensors(const ModelConfig& config, const gguf::Architecture& architecture,
                                    const std::string& where);

}  // namespace tare
