// SPDX-License-Identifier: Apache-2.0
// Rotary positions of every family: what config.json says, and the frequencies that follow. A head's first r channels
// are pairs that turn by position * f_i, i < r / 2. Unscaled f_i = theta^(-2i/r); scaled, a divisor of each:
//
//   linear    the factor
//   dynamic   1 within max_position_embeddings, beyond which texts are refused: read as default
//   llama3    1 for waves shorter than original / high, the factor for those longer than original / low; between them a
//             ramp over turns per token
//   yarn      1 for pairs that turn often within the original positions, the factor for those that turn seldom; between
//             them a ramp over pairs (Peng et al. 2023, arXiv 2309.00071)
//   longrope  a list, another one in sequences longer than the original positions (Ding et al. 2024, arXiv 2402.13753)
//
// The last two multiply cosines and sines by an attention factor. Computed in f32 in the order of transformers'
// modeling_rope_utils, because rounding matters at distant positions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

class ConfigKeys;
class KeyRotary;  // kernels/cache/key_rotary.h
struct ModelConfig;

struct RotaryConfig {
  enum class Type { kDefault, kLinear, kLlama3, kYarn, kLongRope };
  // Which channels of a head rotate together: i and i + r/2, or 2i and 2i + 1.
  enum class Layout { kHalfSplit, kInterleaved };
  Type type = Type::kDefault;
  Layout layout = Layout::kHalfSplit;
  double theta = 10000.0;
  double factor = 1.0;                 // linear, llama3, yarn
  double low_frequency_factor = 1.0;   // llama3
  double high_frequency_factor = 4.0;  // llama3
  double original_positions = 0;       // llama3, yarn, longrope; 0: not known
  double fast_rotations = 32;          // yarn: beta_fast, turns within original_positions from which nothing changes
  double slow_rotations = 1;           // yarn: beta_slow, turns below which the factor divides wholly
  bool truncate = true;                // yarn: whether the channels between which it ramps are whole numbers
  double attention_factor = 1.0;       // yarn, longrope: of cosines and sines, of queries and of keys
  double share = 1.0;                  // of a head's channels that rotate
  std::vector<double> short_divisors, long_divisors;  // longrope: of each pair's frequency

  bool operator==(const RotaryConfig&) const = default;

  // r, of a head of d channels.
  int Channels(int head_dim) const { return static_cast<int>(head_dim * share); }
  // Whether the keys of a sequence of so many tokens turn by the long divisors.
  bool IsLong(int64_t tokens) const {
    return type == Type::kLongRope && static_cast<double>(tokens) > original_positions;
  }
};

std::string_view Name(RotaryConfig::Type type);  // as rope_type has it
// The positions that linear and yarn reach, at least max_positions: files may keep the length before scaling there.
int PositionsReached(const RotaryConfig& rotary, int max_positions);

// Accepts both spellings of the rotary parameters. `usual` stands in for keys that are missing.
RotaryConfig ReadRotary(const ConfigKeys& keys, int max_positions, const RotaryConfig& usual = {});
// What rope_scaling says within `around`, as transformers reads it in the place of rope_parameters, or `named`, what
// these say, where it is missing or empty. Throws Error where both scale, or turn, in different ways.
RotaryConfig ReadScaling(const ConfigKeys& keys, int max_positions, const RotaryConfig& named,
                         const RotaryConfig& around);
// One object of rotary parameters, in a configuration with `around`. Throws Error for parameters by type of layer.
RotaryConfig ReadRotaryObject(const ConfigKeys& parameters, int max_positions, const RotaryConfig& around);
// rotary_layout: which channels rotate together.
RotaryConfig::Layout ReadRotaryLayout(const ConfigKeys& keys);
// Throws Error unless whole pairs of a head's channels rotate, each with its divisors.
void CheckRotary(const RotaryConfig& rotary, int head_dim, const std::string& where);

// 0.1 m ln(factor) + 1, and 1 up to a factor of 1: of cosines and sines where a configuration does not say it.
double YarnAttentionFactor(double factor, double m = 1);

// r/2 frequencies, in a sequence of so many tokens.
std::vector<float> RotaryFrequencies(const RotaryConfig& rotary, int head_dim, int64_t tokens = 1);

// Cosines and sines of positions [0, size), r/2 per row; grows on demand.
class RotaryTable {
 public:
  RotaryTable(const RotaryConfig& rotary, int head_dim);

  // Channels of a head that rotate, its first ones: r.
  int channels() const { return 2 * static_cast<int>(angles_.Half()); }
  void Reserve(int64_t positions);
  // In a sequence of so many tokens.
  const float* Cosine(int64_t position, int64_t tokens = 1) const {
    return For(tokens).At(For(tokens).cosine, position);
  }
  const float* Sine(int64_t position, int64_t tokens = 1) const { return For(tokens).At(For(tokens).sine, position); }

 private:
  struct Angles {
    std::vector<float> frequencies, cosine, sine;
    int64_t Half() const { return static_cast<int64_t>(frequencies.size()); }
    const float* At(const std::vector<float>& rows, int64_t position) const { return rows.data() + position * Half(); }
    void Reserve(int64_t positions, float factor);
  };
  const Angles& For(int64_t tokens) const { return rotary_.IsLong(tokens) ? long_angles_ : angles_; }

  RotaryConfig rotary_;
  Angles angles_, long_angles_;  // the second of long sequences, if these differ
};

// Why keys keep rotary positions: "a phi4flash model, which has none", or longrope's, by the text's length; else "".
std::string WithoutRotary(const ModelConfig& config);

// What +prerotary takes off a layer's keys, if it rotates. Throws Error with `where` and WithoutRotary's reason.
std::shared_ptr<const KeyRotary> KeyRotaryOf(const ModelConfig& config, int layer, const std::string& where);

}  // namespace tare
