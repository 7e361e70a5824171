// SPDX-License-Identifier: Apache-2.0
// How 64 tokens of a key/value cache lie in memory: panels of 64 lanes (panel.h). What a decoding query multiplies is
// side by side:
//
//   keys of a head      one panel: lane = token, inputs = channels (up to a multiple of 16)
//   values of a head    ceil(width / 64) panels: lane = channel, inputs = the 64 tokens
//
// Codes have scales in f32 beside the head's panels: of tokens [64], or of channels [inputs of keys, or lanes of
// values]; after them as many minima where the format has them, or zero points, as what code 0 stands for: -zero x
// scale. Those of values, and of keys' channels, go into what the panels are multiplied by, so they lie before them;
// those of keys' tokens are factors of the products and lie after them. Keys of all heads are one piece of memory, and
// values another: decoding reads the keys of many pages, then their values, all of it straight on (measured:
// NOTEBOOK.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/cache/page_scales.h"
#include "kernels/cache/panel.h"
#include "quant/format/format.h"
#include "quant/format/granularity.h"
#include "quant/format/hadamard.h"

namespace tare {

// How keys, or values, are kept.
struct CacheRule {
  Format format = Format::kF32;  // IsCached
  // What shares a scale, of formats with codes: a token's row of a head, or (kChannel) a channel of a head over a
  // page's 64 tokens (KIVI, arXiv 2402.02750, has keys so).
  Granularity granularity = {Granularity::Kind::kToken};
  // A head's channels are rotated before they are rounded, all together or in runs (quant/format/hadamard.h).
  std::optional<RotatedRuns> hadamard = {};

  bool ByChannel() const { return HasCodes(format) && granularity.kind == Granularity::Kind::kChannel; }
  // Whether what shares a scale also has a minimum: what code 0 stands for.
  bool HasMinima() const { return HasOffset(format); }
};

// Of one layer. V of a head that is 2d wide is one head of width 2d.
struct CacheShape {
  int k_heads = 0, k_width = 0, v_heads = 0, v_width = 0;

  friend bool operator==(const CacheShape&, const CacheShape&) = default;
};

inline constexpr int kPageTokens = 64;

// Offsets in bytes, from where a page's keys begin or its values; all are multiples of 64. Below, k and v are these
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
  // Of the panel that a channel of a value head lies in.
  int64_t ValuePanel(int head, int channel) const {
    return Value(head) + channel / kPanelLanes * PanelBytes(v_.format, kPageTokens);
  }
  // A row of codes, or of numbers, as they are.
  void WriteValueRow(std::byte* v, int token, int head, const float* kept) const;
  void ReadValueRow(const std::byte* v, int token, int head, float* kept) const;
  void WriteKeyChannel(std::byte* k, int channel, int head, const float* column) const;
  void WriteValueChannel(std::byte* v, int channel, int head, const float* column) const;
  void WriteKeysOfHead(std::byte* k, int head, const PageLayout& plain, const std::byte* from) const;
  void WriteValuesOfHead(std::byte* v, int head, const PageLayout& plain, const std::byte* from) const;

  CacheShape shape_;
  CacheRule k_, v_;
  PageScales k_scales_, v_scales_;   // of a head
  int64_t key_bytes_, value_bytes_;  // of a head, scales among them
};

}  // namespace tare
