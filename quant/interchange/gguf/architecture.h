// SPDX-License-Identifier: Apache-2.0
// A GGUF file's model as a checkpoint in Hugging Face layout describes it: config.json, and tensors by their names
// there. llama.cpp's converter changes four things, which are undone here:
//   - it orders the rows of llama's q and k so that the channels that rotate together are neighbours: row h d + 2 j + s
//     of the file is row h d + s d/2 + j of head h of width d;
//   - it adds 1 to the weights of gemma's norms;
//   - it keeps llama3's and longrope's divisors of rotary frequencies as tensors (config_keys.h);
//   - it stacks the matrices of all experts: a layer's tensors ffn_gate_exps, ffn_up_exps [experts, I, E] and
//     ffn_down_exps [experts, E, I], and their biases, hold those of all experts one after another. gpt-oss's gate and
//     up are one matrix in the checkpoint, whose rows come from the two tensors in turns.
// An architecture, a key of the architecture or a tensor that is not known here is refused by name.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/interchange/gguf/architecture_table.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

// A tensor of the checkpoint [rows, in], or a vector of as many values: rows of one of the file, or of two in turns.
struct MappedTensor {
  const Tensor* tensor = nullptr;
  std::vector<int64_t> shape;
  int64_t first_row = 0;             // of the file's tensor; of a vector a row is a value
  const Tensor* in_turns = nullptr;  // has the odd rows
  int64_t rotated_heads = 0;         // whose rows are ordered as above, or 0
  float added = 0;                   // to each value

  struct FileRow {
    const Tensor* tensor;
    int64_t row;
  };
  FileRow Row(int64_t row) const;
  int64_t RowBytes() const;
  // Its rows in one of its tensors.
  std::span<const std::byte> RowsIn(const Tensor& of) const;
};

// ffn_up_exps for ffn_gate_exps, of a tensor's name in the file.
std::string UpOfGate(std::string_view gate);

using TensorsByName = std::map<std::string_view, const Tensor*>;

// Adds each expert's part of `tensor`, which `name` with {} for a number calls. Throws Error, starting with `where`,
// unless it holds as many experts, and two tensors in turns are alike.
void AddExpertTensors(const Architecture& architecture, const Tensor& tensor, std::string_view name,
                      const TensorsByName& tensors, int64_t experts, const std::string& where,
                      std::map<std::string, MappedTensor, std::less<>>& to);

// "mlp.experts.{}.w1" of expert 3: "mlp.experts.3.w1".
std::string NameOfExpert(std::string_view pattern, int64_t expert);

struct MappedModel {
  std::string config;  // config.json
  std::map<std::string, MappedTensor, std::less<>> tensors;
};

// The tensors must outlive the result.
MappedModel MapModel(const Metadata& metadata, std::span<const Tensor> tensors);

}  // namespace tare::gguf
