// SPDX-License-Identifier: Apache-2.0
// How 64 tokens of a key/value cache lie in memory: panels of 64 lanes (panel.h). What a decoding query multiplies is
// side by side:
//
//   keys of a head      one panel: lane = token, inputs = channels (up to a multiple of 16)
//   values of a head    ceil(width / 64) panels: lane = channel, inputs = the 64 tokens
//
// Codes have scales beside the head's panels, and after these as many minima or zero points where the format has them:
//
//   token                     [64], of keys those of lanes, of values those of inputs
//   channel                   of keys [inputs], of values [lanes]
//   block<N>.channel of keys  [64 / N][inputs]: each run of N tokens, which are lanes, has its own
//   group<N> of values        [ceil(width / N)][64]: each run of N channels, which are lanes, has its own
//   tensor                    none: the rule has it
//
// Blocks and groups hold them in f16, the others in f32. Those of values, and of keys' channels, go into what the
// panels are multiplied by, so they lie before them; those of keys' tokens are factors of the products and lie after.
// Keys of all heads are one piece of memory, and values another: decoding reads the keys of many pages, then their
// values, all of it straight on (measured: docs/develop/notebook.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/cache/panel.h"
#include "quant/format/format.h"
#include "quant/format/hadamard.h"

namespace tare {

// How keys, or values, are kept.
struct CacheRule {
  Format format = Format::kF32;  // IsCached
  // What shares a scale, of formats with codes (MayShareKeyScale, MayShareValueScale): a token's row of a head, or N
  // channels of it (kGroup); a channel of a head over a page's 64 tokens, or over N of them (kBlockChannel). KIVI has
  // keys by block32.channel and values by group32 (arXiv 2402.02750).
  Granularity granularity = {Granularity::Kind::kToken};
  // A head's channels are rotated before they are rounded, all together or in runs (quant/format/hadamard.h).
  std::optional<RotatedRuns> hadamard = {};
  // A rule per tensor has it, and no other: the magnitude that becomes the largest code, whatever comes.
  std::optional<float> clip = {};

  // A channel's scales, or one for all, go into what keys are multiplied by.
  bool WeighsQueries() const { return ByChannel() || clip; }
  bool ByChannel() const {
    using enum Granularity::Kind;
    return HasCodes(format) && (granularity.kind == kChannel || granularity.kind == kBlockChannel);
  }
  // Whether a page's rows, or a row, have several scales, which are in f16.
  bool InRuns() const {
    using enum Granularity::Kind;
    return HasCodes(format) && (granularity.kind == kGroup || granularity.kind == kBlockChannel);
  }
  // Whether what shares a scale also has a minimum: what code 0 stands for.
  bool HasMinima() const { return HasOffset(format); }
};

// What may share a scale of keys, and of values; and their names, for messages.
bool MayShareKeyScale(Granularity granularity);
bool MayShareValueScale(Granularity granularity);
inline constexpr const char* kKeyGranularities = "token, channel, block32.channel or block64.channel";
inline constexpr const char* kValueGranularities = "token, channel, group32 or group64";

// The shape of one layer's cache. V of a head that is 2d wide is one head of width 2d.
struct CacheShape {
  int k_heads = 0, k_width = 0, v_heads = 0, v_width = 0;

  friend bool operator==(const CacheShape&, const CacheShape&) = default;
};
// Throws Error for sizes below 1, more than kMostHeads heads and heads wider than kLargestWidth.
void CheckShape(const CacheShape& shape);

// Throws Error for formats, granularities and clips that no page has.
void CheckRules(const CacheRule& k, const CacheRule& v);

inline constexpr int kPageTokens = 64;

// Lanes begin .. end of some panels of a head, whose inputs have the same scales.
struct LaneRun {
  int64_t panel = 0, panels = 1;  // the first, and how many
  int begin = 0, end = kPanelLanes;
};

// Offsets in bytes from the first of a page's keys or of its values; all are multiples of 64. Below, k and v are these
// places.
class PageLayout {
 public:
  PageLayout(const CacheShape& shape, const CacheRule& k, const CacheRule& v);

  const CacheShape& shape() const { return shape_; }
  const CacheRule& k() const { return k_; }
  const CacheRule& v() const { return v_; }
  // Whether tokens cannot be written one by one.
  bool ByPages() const { return k_.ByChannel() || v_.ByChannel(); }
  int KeyInputs() const { return (shape_.k_width + 15) / 16 * 16; }
  int ValuePanels() const { return (shape_.v_width + kPanelLanes - 1) / kPanelLanes; }

  int64_t Key(int head) const { return head * key_bytes_ + (k_.ByChannel() ? k_scales_.Bytes() : 0); }
  int64_t KeyScales(int head) const {
    return (head + 1) * key_bytes_ - (k_.ByChannel() ? key_bytes_ : k_scales_.Bytes());
  }
  int64_t KeyMinima(int head) const { return KeyScales(head) + k_scales_.Minima(); }  // where k.HasMinima()
  int64_t KeyBytes() const { return shape_.k_heads * key_bytes_; }                    // of all heads, scales among them
  int64_t ValueScales(int head) const { return head * value_bytes_; }
  int64_t ValueMinima(int head) const { return ValueScales(head) + v_scales_.Minima(); }  // where v.HasMinima()
  int64_t Value(int head) const { return ValueScales(head) + v_scales_.Bytes(); }
  int64_t ValueBytes() const { return shape_.v_heads * value_bytes_; }
  int64_t Bytes() const { return KeyBytes() + ValueBytes(); }

  // How many scales of its own an input of a head has: one for each of these runs of lanes, which are all lanes but
  // where a rule is InRuns.
  int KeyRuns() const { return k_.InRuns() ? kPageTokens / k_.granularity.n : 1; }
  int ValueRuns() const { return v_.InRuns() ? (shape_.v_width + v_.granularity.n - 1) / v_.granularity.n : 1; }
  LaneRun KeyRun(int run) const;
  LaneRun ValueRun(int run) const;
  // Scales and minima of a run's inputs, where they are the inputs': of keys by channel [KeyInputs()], of values not by
  // channel [64]. memory: as many twice, aligned to 64 bytes.
  PageScales::Numbers KeyInputScales(const std::byte* k, int head, int run, float* memory) const {
    return k_scales_.Load(k + KeyScales(head), int64_t{run} * KeyInputs(), KeyInputs(), memory);
  }
  PageScales::Numbers ValueInputScales(const std::byte* v, int head, int run, float* memory) const {
    return v_scales_.Load(v + ValueScales(head), int64_t{run} * kPageTokens, kPageTokens, memory);
  }

  // Row `token` of a page from f32, to codes under quant/format/round.h, where they have a scale per token. Values are
  // finite.
  void WriteKey(std::byte* k, int token, int head, const float* key) const;
  void WriteValue(std::byte* v, int token, int head, const float* value) const;
  // All 64 tokens of a page, from one of the same shape in f32.
  void WriteKeys(std::byte* k, const PageLayout& plain, const std::byte* from) const;
  void WriteValues(std::byte* v, const PageLayout& plain, const std::byte* from) const;
  // Row `token` of a page from row `from_token` of another of the same layout: codes and scale as they are, which have
  // a scale per token.
  void CopyKey(std::byte* k, int token, const std::byte* from, int from_token, int head) const;
  void CopyValue(std::byte* v, int token, const std::byte* from, int from_token, int head) const;
  // A row as f32, dequantized.
  void ReadKey(const std::byte* k, int token, int head, float* key) const;
  void ReadValue(const std::byte* v, int token, int head, float* value) const;

 private:
  // The offset of the panel that holds a channel of a value head.
  int64_t ValuePanel(int head, int channel) const {
    return Value(head) + channel / kPanelLanes * PanelBytes(v_.format, kPageTokens);
  }
  // A row of codes, or of numbers, as they are.
  void WriteValueRow(std::byte* v, int token, int head, const float* kept) const;
  void ReadValueRow(const std::byte* v, int token, int head, float* kept) const;
  // Calls body(first channel, count, number of the scale) for channels that share a scale in a token's value.
  template <typename Body>
  void ForGroups(int token, const Body& body) const;
  void WriteKeyChannel(std::byte* k, int channel, int head, const float* column) const;
  void WriteValueChannel(std::byte* v, int channel, int head, const float* column) const;

  CacheShape shape_;
  CacheRule k_, v_;
  PageScales k_scales_, v_scales_;   // of a head
  int64_t key_bytes_, value_bytes_;  // of a head, scales among them
};

}  // namespace tare
