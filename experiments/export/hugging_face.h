// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint as a folder in Hugging Face layout, for programs that cannot read codes: quantized matrices
// become dequantized values; everything else is unchanged, as are the tokenizer's files.
//
// A tensor that the source stores in 16 bits is rounded to that type again, ties to even, if each of its values stays
// within the type's rounding: 2^-8 of it in BF16 and 2^-11 in F16, less than half of the 1/127 to the next code of
// INT8. If one does not (it overflows, or is below the type's normal numbers), the tensor is F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
// What a file of tensors says of where they come from.
std::map<std::string, std::string> TensorMetadata(const Provenance& provenance);

// Creates the folder if there is none, and replaces these files. `source` is the checkpoint that the file was made
// from. Holds the dequantized weights in memory.
ExportSummary ExportDequantized(const std::filesystem::path& quantized, const std::filesystem::path& source,
                                const std::filesystem::path& folder);

// "36 tensors in BF16, 15 of them rounded to nearest; 1 in F32, whose values the source's type cannot hold".
std::string WrittenText(const ExportSummary& summary);

// ---- Rows of several tensors, or of several matrices of codes, below each other: the parts of a fused tensor
// (experiments/model/linear/weights.h) as other programs store it.
//
// Of tensors of one type and width. The memory holds the result.
TensorView JoinedTensor(const std::string& name, std::span<const TensorView> parts, AlignedBuffer<std::byte>& memory);

// Empty unless all have one format, width, group, rotation and f32 per tensor.
std::optional<QuantizedMatrixBuffer> JoinedMatrix(std::span<const QuantizedMatrix* const> parts);

}  // namespace tare
