// SPDX-License-Identifier: Apache-2.0
// What a GGUF file says of rotary positions, and keys that one family has, in the words of config.json. Rotary
// positions are the base, and one of linear, yarn, llama3 (the tensor rope_freqs) and phi3's longrope (the tensors
// rope_factors_short and rope_factors_long).
//
// llama.cpp multiplies YaRN's cosines and sines by 0.1 ln(factor) + 1 and by rope.scaling.attn_factor. Its converter
// writes transformers' attention_factor as rope.scaling.yarn_attn_factor, and `truncate` as rope.scaling.yarn_truncate;
// files of gpt-oss from before it did have none, and the published model does not truncate.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/json.h"
#include "quant/interchange/gguf/architecture.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {

// The keys of a GGUF file that begin with its architecture's name. Each is asked for by name; what nobody asked for may
// change what the model computes, and is refused.
class ArchitectureKeys {
 public:
  // The metadata must outlive it.
  ArchitectureKeys(const Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  // Each throws Error where the key has a value of another kind. A list of numbers, one for each layer, must hold equal
  // ones.
  std::optional<int64_t> Number(std::string_view key);
  int64_t Need(std::string_view key);  // more than 0
  // A finite f32, as the shortest number that is it.
  std::optional<double> Real(std::string_view key);
  std::optional<bool> Flag(std::string_view key) { return metadata_.Flag(Used(key)); }
  std::optional<std::string_view> Text(std::string_view key) { return metadata_.Text(Used(key)); }
  // A list of so many numbers or flags; empty if there is none.
  std::vector<double> Reals(std::string_view key, int64_t count);
  bool IsArray(std::string_view key) const;
  // The key may be missing or have this value.
  void Expect(std::string_view key, int64_t expected, std::string_view why);
  void ExpectReal(std::string_view key, double expected);
  void Ignore(std::string_view key) { Used(key); }
  // All keys of the architecture must have been asked for.
  void CheckAllUsed() const;

  const std::string& where() const { return metadata_.where(); }
  std::string Name(std::string_view key) const { return prefix_ + std::string(key); }

 private:
  std::string Used(std::string_view key) { return *used_.insert(Name(key)).first; }

  const Metadata& metadata_;
  std::string prefix_;
  std::set<std::string, std::less<>> used_;
};

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

// Adds rope_theta and rope_scaling to a configuration that has head_dim. Throws Error for other kinds, and for two at
// once.
void AddRotary(const Architecture& architecture, std::span<const Tensor> tensors, ArchitectureKeys& keys, Json& config);

// Whether the tensor says rotary positions and is no part of a layer.
bool IsRotary(const Architecture& architecture, std::string_view tensor);

// Keys of one family: experts, windows, multipliers. What llama.cpp fixes in its code and no key says is added here,
// too: gemma3's scale of queries, that every sixth of its layers sees all keys, and that the shares of a token's
// experts sum to 1 in qwen3moe. `config` has the keys that all families share.
void AddFamilyKeys(const Architecture& architecture, ArchitectureKeys& keys, Json& config);

}  // namespace tare::gguf
