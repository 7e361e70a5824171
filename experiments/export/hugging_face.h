// SPDX-License-Identifier: Apache-2.0
// Checkpoints as Hugging Face folders. In a quantized one, codes become dequantized values for other programs; all
// else, with the tokenizer's files, is unchanged. Other checkpoints change to another family's layout.
//
// A tensor stored in 16 bits is rounded to that type again, ties to even, if each value stays within its rounding: 2^-8
// of it in BF16, 2^-11 in F16, less than half of INT8's 1/127. If one overflows or is subnormal, it is F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/arrays/array_file.h"
#include "experiments/model/linear/weights.h"
#include "experiments/passes/progress.h"
#include "quant/base/aligned.h"
#include "quant/file/dtype.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/file/safetensors.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

struct ExportSummary {
  int64_t bytes = 0;             // of the written tensors
  std::map<DType, int> tensors;  // written tensors, by type
  std::map<DType, int> rounded;  // those rounded from wider values
  int too_wide = 0;              // left in F32, because the source's type cannot hold a value
};

// Names of files that the folder may get: weights, config.json, the tokenizer's files.
std::vector<std::string> ExportedFiles();

// What writers of folders share. Copies the tokenizer's files of a checkpoint.
void CopyTokenizer(const std::filesystem::path& model, const std::filesystem::path& folder);
// Values in BF16 or F16; empty if one of them is not kept to the type's rounding.
std::optional<AlignedBuffer<uint16_t>> Halves(std::span<const float> values, DType dtype);
// What a file of tensors says of where they come from.
std::map<std::string, std::string> TensorMetadata(const Provenance& provenance);

// Creates the folder or replaces these files. `source`: the file's origin. Holds dequantized weights in memory.
ExportSummary ExportDequantized(const std::filesystem::path& quantized, const std::filesystem::path& source,
                                const std::filesystem::path& folder);

// "36 tensors in BF16, 15 of them rounded to nearest; 1 in F32, whose values the source's type cannot hold".
std::string WrittenText(const ExportSummary& summary);

// Throws Error, starting with `where`, if codes have a low-rank branch, which no format of codes but Tare's has.
void RefuseBranch(const QuantizedMatrix& matrix, const std::string& where, std::string_view format);

// ---- A fused tensor (experiments/model/linear/weights.h) as stored: tensors or matrices of codes below each other, or
// columns side by side, of one type and one width or height. The memory holds the result.
TensorView JoinedTensor(const FusedTensor& fused, std::span<const TensorView> parts, AlignedBuffer<std::byte>& memory);

// Empty unless all have one format, width, group, rotation and f32 per tensor.
std::optional<QuantizedMatrixBuffer> JoinedMatrix(std::span<const QuantizedMatrix* const> parts);

// ---- Layouts (layout.cc)
//
// Converts a model to another family's layout, if that family can express the computation: V1 as its authors store it
// (diff_v1) or as Hugging Face does (diffllama), and any family's foreign names, pairing or rotary layout to its own.
//
//   heads    moves blocks of d rows of q, k and v from their place in one head table to that in the other
//   rotary   reorders rows of q and k within a head: channels 2i, 2i + 1 against i, i + d/2
//   subln    multiplies a head norm's weight into the columns of o_proj, in f32; the target's own, if any, is ones
//   double   a Llama-like model to diff_v2: a head's two maps are its one map, lambda_proj is 0, so lambda is 1/2, and
//            o_proj is doubled: 2 W (a - a / 2) = W a in every type, as these factors are powers of two
//   dex      takes a DEX into o_proj, in f32
//
// All tensors except o_proj keep their bits. A bias that only the target has is 0.
struct ConvertSummary {
  int tensors = 0, moved = 0, folded = 0;  // moved: with reordered rows; folded: o_proj with a head norm or DEX
  int doubled = 0;                         // o_proj times 2
  int64_t bytes = 0;
};

// DEX (arXiv 2505.16333; AllenHaoHuang/Megatron-LM, dex.py): chosen heads of a standard model subtract a projection of
// their output o. Nothing is between them and o_proj, so that it becomes a part of o_proj's columns of a head:
//
//   o' = o - lambda o W_D        W_o' = W_o (I - lambda W_D)^T
using Folding = std::function<void(std::vector<float>& o_proj)>;  // [E, H d], sums in double
// A layer's, from arrays model.layers.{}.self_attn.dex.{weight [d, d], lambda_learn [], head_mask [H]}; after annealing
// lambda is lambda_learn. Throws Error where one is missing or another, and for two maps, or a gate, of a head.
Folding DexOf(const ArrayFile& file, const ModelConfig& config, int layer);

// Creates the folder and writes config.json, model.safetensors and the tokenizer's files; makes a tensor when the file
// comes to it. Throws Error, with the reason, if the family named `to` cannot express what the model computes.
ConvertSummary ConvertLayout(const std::filesystem::path& model, const std::string& to,
                             const std::filesystem::path& folder, const Progress& progress = {},
                             const std::filesystem::path& dex = {});

}  // namespace tare
