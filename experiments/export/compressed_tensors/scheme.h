// SPDX-License-Identifier: Apache-2.0
// Which scheme of compressed-tensors holds what a plan says of a linear layer, and how its configuration says it. The
// layouts are in quant/interchange/folders/compressed_tensors.cc, which reads them.
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
// Another rule for the scale or ties of a format (mxfp4:rceil) makes other codes of the same scheme, and so does +full
// (of int8 with inputs, too). With +zero a scheme is asymmetric; all others are symmetric.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "experiments/model/config/config.h"
#include "quant/file/json_value.h"
#include "quant/plan/plan.h"

namespace tare {

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

// Throws Error for rules that no scheme holds: of sites that are no weights or inputs of linear layers, or of inputs
// whose weights stay as they are. Nothing but the configuration is read.
void CheckCompressed(const Plan& plan, const ModelConfig& config);

}  // namespace tare
