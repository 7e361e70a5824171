// SPDX-License-Identifier: Apache-2.0
// A GGUF file's model as a checkpoint in Hugging Face layout describes it: config.json, and tensors by their names
// there. llama.cpp's converter changes four things, which are undone here:
//   - it orders the rows of llama's q and k so that the channels that rotate together are neighbours: row h d + 2 j + s
//     of the file is row h d + s d/2 + j of head h of width d;
//   - it adds 1 to the weights of gemma's norms;
//   - it keeps llama3's and longrope's divisors of rotary frequencies as tensors (below);
//   - it stacks the matrices of all experts: a layer's tensors ffn_gate_exps, ffn_up_exps [experts, I, E] and
//     ffn_down_exps [experts, E, I], and their biases, hold those of all experts one after another. gpt-oss's gate and
//     up are one matrix in the checkpoint, whose rows come from the two tensors in turns.
// An architecture, a key of it or a tensor that is not known here is refused by name. One table has families and names
// of tensors in Hugging Face's terms, to read and write GGUF files.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/checkpoint_files.h"
#include "quant/file/json.h"
#include "quant/interchange/gguf/container.h"

namespace tare {

// The file, or all of a model's parts where one is given, as a checkpoint.
std::unique_ptr<const CheckpointSource> OpenGguf(const std::filesystem::path& path);
// config.json or a file of the tokenizer, that a folder would have; nullopt if there is none.
std::optional<std::string> GgufText(const std::filesystem::path& path, const std::string& name);

namespace gguf {

// Names within a layer: `theirs` in the file, `ours` in the checkpoint, for NAME.weight and NAME.bias unless `theirs`
// has a kind. {} in `ours`: one tensor of all experts in the file, one each in the checkpoint.
struct NamePair {
  std::string_view theirs, ours;
};

// What sets some architectures apart.
enum ArchitectureTrait : uint32_t {
  kReordersRows = 1,  // of q and k, so that channels that rotate together are neighbours
  kNormsAddOne = 2,
  kHead = 4,  // output.weight, also of models that use the embedding for it
  kExperts = 8,
  kInTurns = 16,  // gate and up of an expert: one matrix in the checkpoint, two in the file
};

struct Architecture {
  std::string_view name, family, transformers;  // its class there is TRANSFORMERSForCausalLM
  std::string_view only_with;  // a key, without the name, that is more than 0 in this family alone; else empty
  std::array<std::span<const NamePair>, 5> names;
  uint32_t traits = 0;

  bool Has(ArchitectureTrait trait) const { return (traits & trait) != 0; }
};

// All architectures; of the families of one name, those with a key of their own come first.
std::span<const Architecture> Architectures();
// The architecture of a model_type of config.json; null if there is none.
const Architecture* ArchitectureOfFamily(std::string_view family);
// "llama, qwen2 or qwen3", for messages: the names of architectures, and of families.
std::string ArchitecturesText();
std::string FamiliesText();

// Hugging Face's name of a file's tensor, {} for an expert's number, and the reverse; empty: no such tensor.
std::string CheckpointName(const Architecture& architecture, std::string_view name);
std::string FileName(const Architecture& architecture, std::string_view name);

// Where llama's rows of q and k are: row h d + s d/2 + j of head h of width d is row h d + 2 j + s of the file.
int64_t RowOfNeighbours(int64_t row, int64_t width);

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

// ---- What a GGUF file says of rotary positions, and keys that one family has, in the words of config.json
// (config_keys.cc). Rotary positions are the base, and one of linear, yarn, llama3 (the tensor rope_freqs) and phi3's
// longrope (the tensors rope_factors_short and rope_factors_long).
//
// llama.cpp multiplies YaRN's cosines and sines by 0.1 ln(factor) + 1 and by rope.scaling.attn_factor. Its converter
// writes transformers' attention_factor as rope.scaling.yarn_attn_factor, and `truncate` as rope.scaling.yarn_truncate;
// files of gpt-oss from before it did have none, and the published model does not truncate.

// llama3's scaling of rotary frequencies, found again from what llama.cpp's converter made of it: the tensor
// rope_freqs.weight divides frequency theta^(-2i/d) by f_i. With a wave of w_i tokens,
//
//   s_i = (original / w_i - low) / (high - low)
//   f_i = 1 where w_i < original / high;  factor where w_i > original / low;  else 1 / ((1 - s_i) / factor + s_i)
struct RotaryFactors {
  double factor = 1, low = 1, high = 4, original = 8192;
};

// nullopt if no such numbers make these divisors (to 1e-5 of each). `low` is 1: only quotients count.
std::optional<RotaryFactors> FindRotaryFactors(std::span<const float> divisors, double theta);

// Adds rope_theta and rope_scaling to a configuration with head_dim. Throws Error for other kinds, and two at once.
void AddRotary(const Architecture& architecture, std::span<const Tensor> tensors, ArchitectureKeys& keys, Json& config);

// Whether the tensor says rotary positions and is no part of a layer.
bool IsRotary(const Architecture& architecture, std::string_view tensor);

// Keys of one family: experts, windows, multipliers. Also what llama.cpp fixes in its code: gemma3's scale of queries
// and every sixth layer seeing all keys, qwen3moe's shares of experts summing to 1. `config` has keys of all families.
void AddFamilyKeys(const Architecture& architecture, ArchitectureKeys& keys, Json& config);

}  // namespace gguf
}  // namespace tare
