// SPDX-License-Identifier: Apache-2.0
// A model as a GGUF file, for llama.cpp: the reverse of quant/interchange/gguf. Matrices are rounded to one type as
// llama.cpp's own tools round them, but for K-types (quant/interchange/gguf/quantize_blocks.h), norms and biases are
// F32. The embedding and the head are Q8_0 where the type has fewer bits. A matrix whose rows are no whole blocks is of
// the type that takes its place, as in llama.cpp: Q5_0 for Q4_K, Q5_1 for Q5_K, Q8_0 for Q6_K, F16 for all others.
//
// Codes of Tare's own are written where the type holds their values exactly (MXFP4 those of mxfp4, F32 all), or code by
// code with scales rounded to F16 (Q4_0, Q8_0 and Q4_1 those of integers: gguf/quantize_blocks.h). All else is refused:
// it would be rounded a second time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "experiments/passes/progress.h"

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

}  // namespace tare
