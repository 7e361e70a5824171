// SPDX-License-Identifier: Apache-2.0
// A model as a GGUF file, for llama.cpp: the reverse of quant/interchange/gguf. Matrices are rounded to one type as
// llama.cpp's own tools round them, but for K-types (quant/interchange/gguf/blocks.h), norms and biases are
// F32. The embedding and the head are Q8_0 where the type has fewer bits. A matrix whose rows are no whole blocks is of
// the type that takes its place, as in llama.cpp: Q5_0 for Q4_K, Q5_1 for Q5_K, Q8_0 for Q6_K, F16 for all others.
//
// Codes of Tare's own are written where the type holds their values exactly (MXFP4 those of mxfp4, F32 all), or code by
// code with scales rounded to F16 (Q4_0, Q8_0 and Q4_1 those of integers: gguf/blocks.h). All else is refused:
// it would be rounded a second time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/passes/progress.h"
#include "quant/interchange/gguf/architecture.h"
#include "quant/interchange/gguf/container.h"

namespace tare {

struct GgufSummary {
  std::map<std::string, int> types;  // tensors by type
  int64_t bytes = 0;                 // of the tensors
  int64_t matrix_bytes = 0, matrix_values = 0;
  double relative_error = 0;               // ||W - Q|| / ||W|| over all matrices together
  int64_t scales = 0, rounded_scales = 0;  // of codes that were written as they are; those that are no F16
  // Blocks, of 32 or more values, that lost over half of their size: only values too small for F16 and its scales do.
  int64_t lost_blocks = 0;
  bool has_tokenizer = false;
  // Matrices whose rows are no whole blocks, and the type that each has instead.
  std::map<std::string, std::string> short_rows;
};

// Writes the file whole or not at all; `version` is Tare's. Throws Error, with the reason, if a GGUF file cannot hold
// the model.
GgufSummary ConvertToGguf(const std::filesystem::path& model, const std::string& type, std::string_view version,
                          const std::filesystem::path& out, const Progress& progress = {});

// ---- Keys and tensors
//
// A model's configuration as keys of a GGUF file, and its tensors as the file's: the reverse of
// quant/interchange/gguf/architecture.h. A file can hold models of llama.cpp's architectures, without what llama.cpp
// fixes in its code or has no key or tensor for. It then computes what Tare does, but for the window of a phi3 and yarn
// without truncation in gpt-oss, which it ignores in files of its own converter, too: a notice says so.
//
// GGUF calls a Mistral model a llama. Throws Error, starting with `where`, for a model that a file cannot hold.
const gguf::Architecture& GgufArchitectureOf(const ModelConfig& config, const std::string& where);

// Adds the keys of a model that GgufArchitectureOf accepts.
void AddModelKeys(const ModelConfig& config, const gguf::Architecture& architecture, gguf::MetadataWriter& out);

// Tensors of the file. Each has rows of one tensor of the checkpoint, of a fused tensor's parts (phi3), of all
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
