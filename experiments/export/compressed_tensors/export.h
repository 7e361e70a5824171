// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint as a folder of compressed-tensors: codes and scales by its schemes, config.json with
// quantization_config, the rest unchanged, and README.md. What schemes cannot hold is an error (scheme.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/model/config/config.h"
#include "quant/base/aligned.h"
#include "quant/file/json.h"
#include "quant/file/safetensors.h"
#include "quant/format/quantized_matrix.h"
#include "quant/plan/plan.h"

namespace tare {

struct CompressedSummary {
  int64_t bytes = 0;                   // of the written tensors
  std::map<std::string, int> formats;  // matrices by format
};

// Names of files that the folder may get.
std::vector<std::string> CompressedFiles();

// Creates the folder if there is none, and replaces these files. `version` is Tare's. Holds codes and scales in memory.
CompressedSummary ExportCompressed(const std::filesystem::path& quantized, const std::filesystem::path& folder,
                                   std::string_view version);

// "28 matrices in pack-quantized".
std::string FormatsText(const CompressedSummary& summary);

// ---- Schemes

// A linear layer's scheme and its configuration; quant/interchange/folders/compressed_tensors.cc reads these:
//
//   weights                        inputs                                format
//   int4 int8 /channel /group<N>   f32                                   pack-quantized, also +full and +zero
//   int8 /tensor                   f32                                   int-quantized, likewise
//   int8 /channel /tensor          int8/token, int8/tensor+static        int-quantized
//   fp8e4m3 /channel /tensor       f32, fp8e4m3/token, /tensor+static    float-quantized
//   mxfp8e4m3                      f32, mxfp8e4m3                        mxfp8-quantized
//   nvfp4                          f32                                   nvfp4-pack-quantized
//   mxfp4                          f32, mxfp4                            mxfp4-pack-quantized
//
// Other scale or tie rules (mxfp4:rceil) and +full (int8 inputs, too) only make other codes. Only +zero is asymmetric.
enum class CompressedLayout { kPackedIntegers, kIntegers, kFloat8, kNvFp4, kMxFp4 };

struct CompressedScheme {
  CompressedLayout layout = CompressedLayout::kPackedIntegers;
  std::string_view format;  // by which config.json calls it
  Json weights, inputs;     // QuantizationArgs; inputs are null where they are not rounded
  float largest_input = 0;  // of static inputs: the code or value of the clip

  bool operator==(const CompressedScheme& other) const {
    return format == other.format && weights == other.weights && inputs == other.inputs;
  }
};

// inputs: null for f32. Throws Error, naming the rule and what the schemes hold.
CompressedScheme SchemeOf(const Rule& weights, const Rule* inputs);

// Throws Error if no scheme holds a rule: for other sites, or for inputs of unquantized weights. Reads only config.
void CheckCompressed(const Plan& plan, const ModelConfig& config);

// A matrix of Tare's codes as a module's tensors, by layout, bit for bit: scales stay as they are, f32 where Tare has
// f32. Only NVFP4's second scale becomes a divisor; the f32 nearest to its inverse moves values by up to 2^-22 of them.
//
// Asymmetric schemes (+zero) add X.weight_zero_point: packed along rows beside packed integers, int8 beside bytes.
// Codes and zero points from 0 are stored less 2^(bits - 1), as signed ones are.
struct NewModule {
  std::string name;  // X
  std::vector<TensorView> tensors = {};
  std::deque<AlignedBuffer<std::byte>> memory = {};  // of the tensors

  // Bytes of a type and shape, of zeros.
  std::byte* Add(const std::string& part, DType dtype, std::vector<int64_t> shape);
};

// `where` starts messages. Throws Error for rows that the layout cannot hold.
NewModule ModuleOf(const std::string& module, const QuantizedMatrix& matrix, const CompressedScheme& scheme,
                   const std::string& where);

// The f32 g that makes a / g nearest to a * of_tensor for E4M3's values a.
float DivisorFor(float of_tensor);

}  // namespace tare
