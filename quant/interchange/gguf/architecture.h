// SPDX-License-Identifier: Apache-2.0
// A GGUF file's model as a checkpoint in Hugging Face layout describes it: config.json, and tensors by their names
// there. llama.cpp's converter changes three things, which are undone here:
//   - it orders the rows of llama's q and k so that the channels that rotate together are neighbours: row h d + 2 j + s
//     of the file is row h d + s d/2 + j of head h of width d;
//   - it adds 1 to the weights of gemma's norms;
//   - it keeps llama3's scaled rotary frequencies as the tensor rope_freqs, a divisor per frequency.
// An architecture, a key of the architecture or a tensor that is not known here is refused by name.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

struct MappedTensor {
  const Tensor* tensor = nullptr;
  int64_t rotated_heads = 0;  // whose rows are ordered as above, or 0
  float added = 0;            // to each value

  // The file's row that holds row `row` of the checkpoint.
  int64_t FileRow(int64_t row) const;
};

struct MappedModel {
  std::string config;  // config.json
  std::map<std::string, MappedTensor, std::less<>> tensors;
};

// The tensors must outlive the result.
MappedModel MapModel(const Metadata& metadata, std::span<const Tensor> tensors);

}  // namespace tare::gguf
