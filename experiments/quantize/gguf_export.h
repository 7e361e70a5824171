// SPDX-License-Identifier: Apache-2.0
// A model as a GGUF file, for llama.cpp: the reverse of quant/interchange/gguf. Matrices are rounded to one type as
// llama.cpp's own tools round them (quant/interchange/gguf/quantize_blocks.h), norms and biases are F32. The embedding
// and the head are Q8_0 where the type has fewer bits, and a matrix whose rows are no whole blocks is F16.
//
// Codes of Tare's own are written where the type holds their values exactly (MXFP4 those of mxfp4, F32 all), and
// refused otherwise: they would be rounded a second time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/progress.h"

namespace tare {

struct GgufSummary {
  std::map<std::string, int> types;  // tensors by type
  int64_t bytes = 0;                 // of the tensors
  int64_t matrix_bytes = 0, matrix_values = 0;
  double relative_error = 0;  // ||W - Q|| / ||W|| over all matrices together
  bool has_tokenizer = false;
  std::vector<std::string> short_rows;  // matrices in F16, because their rows are no whole blocks
};

// Names of types, for --type.
std::vector<std::string> GgufTypes();

// Writes the file whole or not at all; `version` is Tare's. Throws Error, with the reason, if a GGUF file cannot hold
// the model.
GgufSummary ConvertToGguf(const std::filesystem::path& model, const std::string& type, std::string_view version,
                          const std::filesystem::path& out, const Progress& progress = {});

}  // namespace tare
