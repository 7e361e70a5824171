// SPDX-License-Identifier: Apache-2.0
// How a decoding call is cut into rounds and units of work, and every buffer with its shape. A round takes as many
// queries of a sequence as kMostKeptBytes hold; a unit is a run of pages for a run of groups of heads.
//
// Rows are those of all groups (decode_heads.h) times the round's queries, query within row; so are products. Of a
// group, its queries beside a sequence's cache: their products with the keys of a page, read once for all of them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/row_block.h"
#include "kernels/decode/decode_attention.h"
#include "kernels/decode/page_softmax.h"
#include "kernels/decode/panel_product.h"

namespace tare {

// A run of lanes of a head's panels, of which so many inputs count.
Panels PanelsOf(const PageSide& side, const std::byte* page, int head, int run, int64_t inputs);

class GroupQueries {
 public:
  // Aligned to 64. inputs: of keys, up to a multiple of 16.
  struct Memory {
    PanelFactor* keys;     // [rows]
    float *q, *q_factors;  // [rows][inputs], as they are and as factors
    float* logits;         // [rows][64]
    float* panel;          // [inputs][64], of keys before rotary; else not read
  };

  GroupQueries(const DecodeHeads& table, const DecodeSequence& s, const DecodeHeads::Group& group, const Memory& memory)
      : table_(table), s_(s), group_(group), x_(memory), inputs_((table.shape().k_width + 15) / 16 * 16) {}

  int64_t Rows() const { return std::ssize(group_.rows) * s_.q.tokens; }
  // Queries into memory, where Multiply finds them.
  void Load() const;
  // Their products with a part's keys.
  void Multiply(const KvCache::Part& part, int64_t page) const;
  // Row i's logits, of those of the part's keys that its query sees.
  PartLogits Logits(const KvCache::Part& part, int64_t page, int64_t i) const;

 private:
  void LoadFactor(int64_t i, const Format& format, const float* weights) const;
  KeyRange Visible(const KvCache::Part& part, int64_t page, int64_t query) const;
  // scales: [inputs / 16][64], memory for those of keys in blocks
  void WeighQueries(const KvCache::Part& part, int head, int run, float* scales, std::span<PanelFactor> factors) const;
  void MultiplyTurned(const KvCache::Part& part, int64_t page, int head, std::span<const PanelFactor> factors) const;

  const DecodeHeads& table_;
  const DecodeSequence& s_;
  const DecodeHeads::Group& group_;
  Memory x_;
  int inputs_;
};

inline constexpr int64_t kMostChunks = 16;  // of a sequence's keys
inline constexpr int64_t kFewestPages = 8;  // of a chunk, but the last
inline constexpr int64_t kFewestUnits = 8;  // of chunks times runs of groups, where there are so many groups
inline constexpr int64_t kMostKeptBytes = int64_t{16} << 20;  // of a sequence's exponentials, if a query takes no more

// Cuts of a sequence's work: runs of pages; where few, runs of groups that share a pass (straight reads are fastest).
struct Cuts {
  Cuts(const DecodeHeads& table, const DecodeSequence& s);

  int64_t Parts() const { return (end - first) * KvCache::kMostParts; }

  int64_t first, end;     // pages that any query sees
  int64_t pages, chunks;  // pages of each chunk
  int64_t runs;           // of groups
};

// Throws Error, naming the sequence, for what DecodeAttention refuses but its output (decode_attention.cc).
void CheckSequence(const DecodeHeads& table, size_t number, const DecodeSequence& s);

// A sequence's share of a round.
struct DecodeWork {
  DecodeSequence s;
  float* p;  // [pages][rows][64]
  // [parts][maps]: of each page's parts, and one more for sinks; sums become shares. maps: rows, up to a multiple of 16
  float *max, *sum;
  float *total_max, *inverse;  // [maps]: M and 1 / L
  float* o;                    // [chunks][products][padded width of v]
};

struct DecodeScratch;

// Sizes of a call, and its workspace.
class DecodeLayout {
 public:
  DecodeLayout(const DecodeHeads& table, std::span<const DecodeSequence> sequences);

  int64_t rounds() const { return rounds_; }
  int64_t units() const { return units_; }                // of a sequence at most
  int64_t blocks() const { return maps_ / kMapsAtOnce; }  // of a sequence's maps, at most
  int64_t Maps(int64_t queries) const;                    // as above
  // The part of a sequence that a round takes; perhaps of no queries.
  DecodeSequence OfRound(const DecodeSequence& s, int64_t round) const;

  std::span<DecodeWork> TakePacked(Arena& arena) const;
  DecodeScratch TakeScratch(Arena& arena) const;

 private:
  friend struct DecodeScratch;

  int64_t QueriesAtOnce(const DecodeSequence& s) const;

  const DecodeHeads& table_;
  std::span<const DecodeSequence> sequences_;
  PageLayout page_;
  int64_t rounds_ = 0, units_ = 0;
  int64_t queries_ = 0, maps_ = 0;  // of a round at most
  bool before_rotary_ = false;      // any cache's keys
  bool in_blocks_ = false;          // the format of any cache's values has blocks
};

struct DecodeScratch {
  Arena arena;
  const DecodeLayout& l;
  int64_t rows = l.table_.rows() * l.queries_, products = l.table_.products() * l.queries_;
  int64_t inputs = l.page_.k().Inputs();
  GroupQueries::Memory queries{.keys = arena.Take<PanelFactor>(rows),
                               .q = arena.Take<float>(rows * inputs),
                               .q_factors = arena.Take<float>(rows * inputs),
                               .logits = arena.Take<float>(rows * kPageTokens),
                               .panel = arena.Take<float>(l.before_rotary_ ? inputs * kPageTokens : 0)};
  float* d = arena.Take<float>(products * kPageTokens);     // [differences][64]
  PanelFactor* values = arena.Take<PanelFactor>(products);  // [products]
  // [products][of_product]: 64 floats, or 64 for each 16 lanes of values in blocks
  int64_t of_product = kPageTokens * (l.in_blocks_ ? l.page_.v().Panels() * 4 : 1);
  float* d_factors = arena.Take<float>(products * of_product);
};

}  // namespace tare
