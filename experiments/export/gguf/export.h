// SPDX-License-Identifier: Apache-2.0
// A model as a GGUF file, the reverse of quant/interchange/gguf. Matrices are rounded to one type as llama.cpp's tools
// do, except K-types (quant/interchange/gguf/blocks.h); norms and biases are F32, embedding and head Q8_0 where the
// type has fewer bits. Rows of no whole blocks are, as there, Q5_0 for Q4_K, Q5_1 for Q5_K, Q8_0 for Q6_K, else F16.
//
// Tare's codes are written where the type holds their values exactly (MXFP4 mxfp4's, F32 all), or by code with scales
// in F16 (integers in Q4_0, Q8_0 and Q4_1: gguf/blocks.h). Others are an error: they would be rounded twice.
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

// Writes the file whole or not at all. Throws Error, with the reason, if GGUF cannot hold the model. version: Tare's.
GgufSummary ConvertToGguf(const std::filesystem::path& model, const std::string& type, std::string_view version,
                          const std::filesystem::path& out, const Progress& progress = {});

// ---- Keys and tensors
//
// A model's keys and tensors in GGUF: the reverse of quant/interchange/gguf/architecture.h. A file holds llama.cpp's
// architectures, except what llama.cpp has fixed or has no key or tensor for. llama.cpp computes what Tare does, but
// ignores, also in its own files, phi3's window and gpt-oss's yarn without truncation: a notice says so.
//
// GGUF calls a Mistral model a llama. Throws Error, starting with `where`, for a model that a file cannot hold.
const gguf::Architecture& GgufArchitectureOf(const ModelConfig& config, const std::string& where);

// Adds the keys of a model that GgufArchitectureOf accepts.
void AddModelKeys(const ModelConfig& config, const gguf::Architecture& architecture, gguf::MetadataWriter& out);

// Tensors: rows of one of the checkpoint's, of a fused one's parts (phi3), all experts', every other row of gate_up.
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

// In the file's order, without rotary ones. Throws Error, starting with `where`, for a tensor llama.cpp cannot name.
std::vector<GgufTensor> GgufTensors(const ModelConfig& config, const gguf::Architecture& architecture,
                                    const std::string& where);

}  // namespace tare
