// SPDX-License-Identifier: Apache-2.0
// A GGUF file's model as a checkpoint in Hugging Face layout describes it: config.json, and tensors by their names
// there. llama.cpp's converter changes four things, which are undone here:
//   - it orders the rows of llama's q and k so that the channels that rotate together are neighbours: row h d + 2 j + s
//     of the file is row h d + s d/2 + j of head h of width d;
//   - it adds 1 to the weights of gemma's norms;
//   - it keeps llama3's and longrope's divisors of rotary frequencies as tensors (rotary_keys.h);
//   - it stacks the matrices of all experts (expert_tensors.h).
// An architecture, a key of the architecture or a tensor that is not known here is refused by name.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "quant/interchange/gguf/container.h"
#include "quant/interchange/gguf/expert_tensors.h"

namespace tare::gguf {

struct MappedModel {
  std::string config;  // config.json
  std::map<std::string, MappedTensor, std::less<>> tensors;
};

// The tensors must outlive the result.
MappedModel MapModel(const Metadata& metadata, std::span<const Tensor> tensors);

}  // namespace tare::gguf
