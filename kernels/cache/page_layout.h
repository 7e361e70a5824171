// SPDX-License-Identifier: Apache-2.0
// 64 tokens of a key/value cache: panels of 64 lanes (panel.h), with what a decoding query multiplies side by side:
//
//   keys of a head      one panel: lane = token, inputs = channels (up to a multiple of 16)
//   values of a head    ceil(width / 64) panels: lane = channel, inputs = the 64 tokens
//
// Codes have scales beside the head's panels, and after these as many minima or zero points where the format has them:
//
//   token                     [64], of keys those of lanes, of values those of inputs
//   channel                   of keys [inputs], of values [lanes]
//   block<N>.channel of keys  [64 / N][inputs]: each run of N tokens, which are lanes, has its own
//   group<N>                  [ceil(width / N)][64]: each run of N channels, lanes of values and inputs of keys, has
//                             its own; keys have the blocks of a format alone (MX, NVFP4)
//   tensor                    none: the rule has it
//
// Blocks and groups hold them in f16 or the format's byte, others in f32. Those of values, and of keys' channels, go
// into the panels' factors and lie before them; those of keys' tokens are factors of products and lie after.
// Keys of all heads are one piece of memory, and values another: decoding reads the keys of many pages, then their
// values, all of it straight on (measured: docs/develop/notebook.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/attention/heads.h"
#include "kernels/cache/panel.h"
#include "quant/format/format.h"
#include "quant/format/hadamard.h"

namespace tare {

// How keys, or values, are kept.
struct CacheRule {
  Format format = Format::kF32;  // IsCached
  // What shares a scale, of formats with codes (MayShareKeyScale, MayShareValueScale): a token's row of a head, or N
  // channels of it (kGroup; a format's own blocks are such groups); a channel of a head over a page's 64 tokens, or
  // over N of them (kBlockChannel). KIVI has keys by block32.channel and values by group32 (arXiv 2402.02750).
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
  // Whether a page's rows, or a row, have several scales, which are in f16 or a byte.
  bool InRuns() const {
    using enum Granularity::Kind;
    return HasCodes(format) && (granularity.kind == kGroup || granularity.kind == kBlockChannel);
  }
  bool InBlocks() const { return Info(format).block > 0; }
  // Whether what shares a scale also has a minimum: what code 0 stands for.
  bool HasMinima() const { return HasOffset(format); }
};

// What may share a scale of keys, and of values; and their names, for messages.
bool MayShareKeyScale(const Format& format, Granularity granularity);
bool MayShareValueScale(const Format& format, Granularity granularity);
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

// A page's keys, or values: each head's panels beside its scales. Offsets, multiples of 64 bytes, count from `page`.
class PageSide {
 public:
  enum class Lanes { kTokens, kChannels };  // of keys; of values

  PageSide(Lanes lanes, int heads, int width, const CacheRule& rule);

  Lanes lanes() const { return lanes_; }
  const CacheRule& rule() const { return rule_; }
  bool InBlocks() const { return in_blocks_; }
  // A panel has so many inputs, a head so many panels.
  int Inputs() const { return lanes_ == Lanes::kTokens ? (width_ + 15) / 16 * 16 : kPageTokens; }
  int Panels() const { return lanes_ == Lanes::kTokens ? 1 : (width_ + kPanelLanes - 1) / kPanelLanes; }

  // Scales that go into what the panels are multiplied by, and those of values, lie before the panels.
  int64_t Panel(int head) const { return head * head_bytes_ + (scales_first_ ? scale_bytes_ : 0); }
  int64_t Scales(int head) const { return (head + 1) * head_bytes_ - (scales_first_ ? head_bytes_ : scale_bytes_); }
  int64_t Minima(int head) const { return Scales(head) + scales_.Minima(); }  // where the rule HasMinima
  int64_t PanelBytes() const { return panel_bytes_; }
  int64_t ScaleBytes() const { return scale_bytes_; }     // between panels of a head and the next
  int64_t Bytes() const { return heads_ * head_bytes_; }  // of all heads, scales among them

  // How many scales of its own an input of a head has: one for each of these runs of lanes, which are all lanes but
  // where the rule is InRuns and its format has no blocks. And how many scales a token's row, or a channel, has.
  int Runs() const { return of_run_ == 0 ? 1 : groups_; }
  int Groups() const { return groups_; }
  LaneRun Run(int run) const {
    const int begin = run * of_run_;
    if (of_run_ == 0) return {.panels = Panels()};
    return {.panel = begin / kPanelLanes, .begin = begin % kPanelLanes, .end = begin % kPanelLanes + of_run_};
  }
  // Scales and minima of a run's inputs [Inputs()], where they are the inputs': of keys by channel, of values not by
  // channel. memory: as many twice, aligned to 64 bytes. Of values in blocks, those of a block.
  PageScales::Numbers InputScales(const std::byte* page, int head, int run, float* memory) const {
    return scales_.Load(page + Scales(head), int64_t{run} * Inputs(), Inputs(), memory);
  }
  // Those of all lanes of keys in blocks [Groups()][64], in memory.
  const float* LaneScales(const std::byte* page, int head, float* memory) const {
    return scales_.Load(page + Scales(head), 0, int64_t{Groups()} * kPageTokens, memory).scales;
  }

  // Row `token` of a page from f32, finite, to codes by quant/format/round.h, where they have a scale per token.
  void Write(std::byte* page, int token, int head, const float* row) const;
  // These rows from another page's, of the same shape.
  void WriteRows(std::byte* page, const PageSide& source, const std::byte* from, KeyRange tokens) const;
  // All 64 tokens of a page, from one of the same shape in f32.
  void WriteAll(std::byte* page, const PageSide& plain, const std::byte* from) const;
  // Row `token` from row `from_token` of a page of this layout: codes and scale (per token) as they are.
  void Copy(std::byte* page, int token, const std::byte* from, int from_token, int head) const;
  // A row as f32, dequantized.
  void Read(const std::byte* page, int token, int head, float* row) const;

 private:
  int64_t Channels() const { return lanes_ == Lanes::kTokens ? Inputs() : int64_t{Panels()} * kPanelLanes; }
  int InPanel() const { return lanes_ == Lanes::kTokens ? width_ : kPanelLanes; }  // channels of a head at most
  // Where the panel of a head's channel is, which has a token's channels from this one on, or this one's 64 tokens.
  int64_t PanelOf(int head, int channel) const;
  PanelRun RowOf(int token, int channel) const;
  PanelRun ColumnOf(int channel) const;
  // A row of codes, or of numbers, as they are.
  void WriteKept(std::byte* page, int token, int head, const float* kept) const;
  void ReadKept(const std::byte* page, int token, int head, float* kept) const;
  // Calls body(first channel, count, number of the scale) for channels that share a scale in a token's row.
  template <typename Body>
  void ForGroups(int token, const Body& body) const;
  void WriteColumn(std::byte* page, int channel, int head, const float* column) const;

  Lanes lanes_;
  int heads_, width_;
  CacheRule rule_;
  bool scales_first_, in_blocks_;
  int groups_, of_run_;  // of_run_: lanes; 0: all
  PageScales scales_;    // of a head
  int64_t panel_bytes_, scale_bytes_, head_bytes_;
};

class PageLayout {
 public:
  PageLayout(const CacheShape& shape, const CacheRule& k, const CacheRule& v)
      : shape_((CheckShape(shape), shape)),
        k_(PageSide::Lanes::kTokens, shape.k_heads, shape.k_width, k),
        v_(PageSide::Lanes::kChannels, shape.v_heads, shape.v_width, v) {}

  const CacheShape& shape() const { return shape_; }
  const PageSide& k() const { return k_; }
  const PageSide& v() const { return v_; }
  // Whether tokens cannot be written one by one.
  bool ByPages() const { return k_.rule().ByChannel() || v_.rule().ByChannel(); }
  int64_t Bytes() const { return k_.Bytes() + v_.Bytes(); }

 private:
  CacheShape shape_;
  PageSide k_, v_;
};

}  // namespace tare
