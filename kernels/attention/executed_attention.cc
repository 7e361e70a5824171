// SPDX-License-Identifier: Apache-2.0
// See executed_attention.h. First K and V are packed, then every (output head, block of query rows) is one unit of
// work.
#include "kernels/attention/executed_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/attention/arena.h"
#include "kernels/attention/code_stage.h"
#include "kernels/attention/fixed_exp.h"
#include "kernels/attention/logit_stage.h"
#include "kernels/attention/output_stage.h"
#include "kernels/attention/packing.h"
#include "kernels/attention/row_block.h"
#include "kernels/attention/row_exp2.h"
#include "kernels/attention/score_stage.h"
#include "kernels/product/tile_product.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// The early order needs a row's sums before its first code, quantized logits its absmax. What they are made of is kept
// for all keys while that fits, with fewer rows at a time if need be; beyond (early: 49,152 keys) the scores are
// computed twice. Leaves room for the rest in 4 MiB.
constexpr int64_t kMostKept = int64_t{3} << 20;

struct Sizes {
  int64_t queries, keys;
  int d4;           // width of q and k, rounded up to 4
  int columns;      // width of a V slice, rounded up to 64
  int64_t tiles;    // of 64 keys
  int block_tiles;  // tiles of a block
  int64_t blocks;
  int rows;  // of a unit
  int64_t row_blocks;
  int64_t scored;    // tiles of maxima and sums that a unit keeps for each map
  int64_t kept;      // tiles of p
  int64_t p_stride;  // of a tile of p
};

// Packed K and V of all heads; see packing.h.
struct Packed {
  int8_t* k_codes;     // [k heads][tiles][d4 / 4][64][4]
  int32_t* k_offsets;  // [k heads][tiles * 64]
  float* k_scales;     // [k heads][tiles * 64]
  int8_t* v_codes;     // [v heads][columns / 64][tiles][16][64][4]
  float* v_scales;     // [v heads][blocks][columns]
  int32_t* v_sums;     // [v heads][tiles + blocks][columns]: block b's first at row (first tile of b) + b
};

// What one thread works with; m: maps.
struct Scratch {
  uint8_t* q;             // [2][rows][d4]
  float* factors;         // [2][rows]
  float* lambda;          // [rows]
  int32_t* begin;         // [rows]
  int32_t* end;           // [rows]
  int32_t* sums;          // [rows][64]
  int16_t* p;             // [2][kept][p_stride], [rows][64] used; quantized logits lie there as f32 before
  float* logit_inv;       // [2][rows]: the row's absmax, then its inverse step
  uint16_t* logit_table;  // [2][rows][kLogitEntries]
  float* max;             // [2][scored][rows]; early: becomes the weights
  int32_t* p_sums;        // [2][scored][rows]
  float* late;            // [block tiles][rows]
  int16_t* early;         // [2][block tiles][rows]
  float* block_max;       // [rows]
  int32_t* code_sums;     // [rows]
  float* row_scales;      // [rows]
  int32_t* offsets;       // [64]
  uint8_t* codes;         // [rows][block]
  float* out;             // [2][rows][slices * columns]
  float* reference;       // [2][rows]
  float* norm;            // [2][rows]
};

Sizes SizesOf(const AttentionPlan& plan, const AttentionProblem& p) {
  Sizes s{};
  s.queries = p.q.tokens;
  s.keys = p.k.tokens;
  s.d4 = static_cast<int>(RoundUp(p.q.width, 4));
  s.columns = static_cast<int>(RoundUp(p.v.width, kTile));
  s.tiles = RoundUp(s.keys, kTile) / kTile;
  s.block_tiles = plan.block / kTile;
  s.blocks = RoundUp(s.tiles, s.block_tiles) / s.block_tiles;
  s.rows = static_cast<int>(std::clamp<int64_t>(RoundUp(s.queries, kRowStep), kRowStep, kLargestRows));
  const bool early = plan.order == AttentionPlan::Order::kEarly, coded = plan.logits != Format::kF32;
  s.scored = early ? s.tiles : s.block_tiles;
  s.kept = early || coded ? s.tiles : s.block_tiles;
  const int64_t key_bytes = 2 * (coded ? sizeof(float) : sizeof(int16_t));  // both maps
  const auto too_many = [&] { return s.kept * kTile * s.rows * key_bytes > kMostKept; };
  while (s.rows > kRowStep && s.kept == s.tiles && too_many()) s.rows = s.rows > 2 * kRowStep ? 2 * kRowStep : kRowStep;
  if (early && !coded && too_many()) {
    s.kept = s.block_tiles;
    s.rows = static_cast<int>(std::min<int64_t>(RoundUp(s.queries, kRowStep), kLargestRows));
  }
  s.p_stride = s.rows * kTile * key_bytes / 4;
  s.row_blocks = RoundUp(s.queries, s.rows) / s.rows;
  return s;
}

Packed CarvePacked(Arena& arena, const Sizes& s, const AttentionProblem& p) {
  Packed x{};
  x.k_codes = arena.Take<int8_t>(p.k.heads * s.tiles * kTile * s.d4);
  x.k_offsets = arena.Take<int32_t>(p.k.heads * s.tiles * kTile);
  x.k_scales = arena.Take<float>(p.k.heads * s.tiles * kTile);
  x.v_codes = arena.Take<int8_t>(p.v.heads * s.tiles * kTile * s.columns);
  x.v_scales = arena.Take<float>(p.v.heads * s.blocks * s.columns);
  x.v_sums = arena.Take<int32_t>(p.v.heads * (s.tiles + s.blocks) * s.columns);
  return x;
}

Scratch CarveScratch(Arena& arena, const Sizes& s, const AttentionPlan& plan, const AttentionProblem& p) {
  Scratch x{};
  const int64_t rows = s.rows;
  const int64_t slices = p.out.width / p.v.width;
  x.q = arena.Take<uint8_t>(2 * rows * s.d4);
  x.factors = arena.Take<float>(2 * rows);
  x.lambda = arena.Take<float>(rows);
  x.begin = arena.Take<int32_t>(rows);
  x.end = arena.Take<int32_t>(rows);
  x.sums = arena.Take<int32_t>(rows * kTile);
  x.p = arena.Take<int16_t>(2 * s.kept * s.p_stride);
  x.logit_inv = arena.Take<float>(2 * rows);
  x.logit_table = arena.Take<uint16_t>(2 * rows * kLogitEntries);
  x.max = arena.Take<float>(2 * s.scored * rows);
  x.p_sums = arena.Take<int32_t>(2 * s.scored * rows);
  x.late = arena.Take<float>(s.block_tiles * rows);
  x.early = arena.Take<int16_t>(2 * s.block_tiles * rows);
  x.block_max = arena.Take<float>(rows);
  x.code_sums = arena.Take<int32_t>(rows);
  x.row_scales = arena.Take<float>(rows);
  x.offsets = arena.Take<int32_t>(kTile);
  x.codes = arena.Take<uint8_t>(rows * plan.block);
  x.out = arena.Take<float>(2 * rows * slices * s.columns);
  x.reference = arena.Take<float>(2 * rows);
  x.norm = arena.Take<float>(2 * rows);
  return x;
}

struct Products {
  TileProduct scores;
  std::array<std::optional<TileProduct>, kLargestBlock / kTile + 1> values;  // by tiles of keys
};

Products ProductsOf(const Sizes& s, const AttentionPlan& plan) {
  Products x{TileProduct({ProductTypes::kU8S8, s.rows, kTile, s.d4, s.d4, kTile, kTile}), {}};
  for (int n = 1; n <= s.block_tiles; ++n)
    x.values[n].emplace(ProductShape{ProductTypes::kU8S8, s.rows, kTile, n * kTile, plan.block, kTile, kTile});
  return x;
}

// --------------------------------------------------------------------------- packing

class Packer {
 public:
  Packer(const AttentionPlan& plan, const AttentionProblem& p, const Sizes& s, const Packed& packed)
      : plan_(plan), p_(p), s_(s), x_(packed) {}

  // A tile of all heads, four tokens at a time, as memory has them.
  void Keys(int64_t tile) const {
    for (int64_t token = tile * kTile; token < (tile + 1) * kTile; token += kRowsAtOnce) {
      for (int head = 0; head < p_.k.heads; ++head) {
        const int64_t at = head * s_.tiles * kTile + token;
        const float* mean = plan_.k_mean == nullptr ? nullptr : plan_.k_mean + head * p_.k.width;
        PackFourKeys(p_.k, head, token, plan_.k, mean, x_.k_codes + (head * s_.tiles + tile) * kTile * s_.d4,
                     x_.k_offsets + at, x_.k_scales + at);
      }
    }
  }

  // Largest magnitudes of a block's columns, where its scales will be.
  void ValueMagnitudes(int64_t unit) const {
    const int64_t head = unit / s_.blocks, first = unit % s_.blocks * plan_.block;
    ValueAbsMax(p_.v, static_cast<int>(head), first, std::min<int64_t>(plan_.block, s_.keys - first), Mean(head),
                x_.v_scales + unit * s_.columns);
  }

  // One magnitude for all blocks.
  void ShareMagnitudes() const {
    for (int head = 0; head < p_.v.heads; ++head) {
      float* all = x_.v_scales + head * s_.blocks * s_.columns;
      for (int64_t i = s_.columns; i < s_.blocks * s_.columns; ++i)
        all[i % s_.columns] = std::max(all[i % s_.columns], all[i]);
      for (int64_t i = s_.columns; i < s_.blocks * s_.columns; ++i) all[i] = all[i % s_.columns];
    }
  }

  void Values(int64_t unit) const {
    const int64_t head = unit / s_.blocks, block = unit % s_.blocks;
    float* scales = x_.v_scales + unit * s_.columns;
    int32_t* sums = x_.v_sums + (head * (s_.tiles + s_.blocks) + block * (s_.block_tiles + 1)) * s_.columns;
    std::fill_n(sums, s_.columns, 0);
    for (int64_t tile = block * s_.block_tiles; tile < std::min(s_.tiles, (block + 1) * s_.block_tiles);
         ++tile, sums += s_.columns) {
      std::copy_n(sums, s_.columns, sums + s_.columns);
      PackValueTile(p_.v, static_cast<int>(head), tile, plan_.v, Mean(head), scales,
                    x_.v_codes + (head * s_.columns * s_.tiles + tile * kTile) * kTile, s_.tiles * kTile * kTile,
                    sums + s_.columns);
    }
    for (int i = 0; i < s_.columns; ++i) scales[i] = ScaleFor(scales[i], plan_.v).scale;
  }

  void Run() const {
    ParallelFor(static_cast<size_t>(s_.tiles), [&](size_t tile, int) { Keys(static_cast<int64_t>(tile)); });
    const size_t blocks = static_cast<size_t>(p_.v.heads * s_.blocks);
    if (plan_.v_scale == AttentionPlan::ValueScale::kSequence) {
      ParallelFor(blocks, [&](size_t unit, int) { ValueMagnitudes(static_cast<int64_t>(unit)); });
      ShareMagnitudes();
      ParallelFor(blocks, [&](size_t unit, int) { Values(static_cast<int64_t>(unit)); });
    } else {
      ParallelFor(blocks, [&](size_t unit, int) {
        ValueMagnitudes(static_cast<int64_t>(unit));
        Values(static_cast<int64_t>(unit));
      });
    }
  }

 private:
  const float* Mean(int64_t head) const { return plan_.v_mean == nullptr ? nullptr : plan_.v_mean + head * p_.v.width; }

  const AttentionPlan& plan_;
  const AttentionProblem& p_;
  const Sizes& s_;
  const Packed& x_;
};

// --------------------------------------------------------------------------- one unit: rows of one output head

class Unit {
 public:
  Unit(const AttentionPlan& plan, const AttentionProblem& p, const Sizes& s, const Packed& packed,
       const Products& products, const Scratch& scratch, int64_t unit)
      : plan_(plan),
        p_(p),
        s_(s),
        k_(packed),
        products_(products),
        x_(scratch),
        head_index_(static_cast<int>(unit / s.row_blocks)),
        head_(p.heads[head_index_]) {
    rows_ = BlockOfRows(p, s.rows, s.row_blocks, unit);
  }

  void Run() {
    if (rows_.end_tile <= rows_.begin_tile) return Zeros();
    LoadQueries(0, head_.q1);
    if (head_.Differential()) LoadQueries(1, head_.q2);
    for (int r = 0; r < s_.rows; ++r)
      x_.lambda[r] = r < rows_.count && head_.Differential() ? p_.lambda.At(rows_.first + r, head_index_) : 0.0f;
    if (plan_.logits != Format::kF32) KeepLogits();
    if (plan_.order == AttentionPlan::Order::kEarly)
      Early();
    else
      Late();
    Finish();
  }

 private:
  int Maps() const { return head_.Differential() ? 2 : 1; }
  int OutWidth() const { return head_.VSlices() * s_.columns; }
  float* Out(int map) const { return x_.out + map * s_.rows * OutWidth(); }
  float* Max(int map, int64_t tile) const { return x_.max + (map * s_.scored + tile % s_.scored) * s_.rows; }
  int32_t* PSums(int map, int64_t tile) const { return x_.p_sums + (map * s_.scored + tile % s_.scored) * s_.rows; }
  int16_t* P(int map, int64_t tile) const { return x_.p + (map * s_.kept + tile % s_.kept) * s_.p_stride; }

  void Zeros() const {
    for (int r = 0; r < rows_.count; ++r) std::fill_n(p_.out.Row(rows_.first + r, head_index_), p_.out.width, 0.0f);
  }

  void LoadQueries(int map, int q) const {
    uint8_t* codes = x_.q + map * s_.rows * s_.d4;
    float* factors = x_.factors + map * s_.rows;
    PackQueries(p_.q, q, rows_.first, rows_.count, plan_.q, codes, factors);
    std::fill(codes + rows_.count * s_.d4, codes + s_.rows * s_.d4, uint8_t{128});
    constexpr float kLog2E = 1.44269504f;
    const float to_units = p_.scale * (kLog2E * kExpUnitsPerOctave);
    // Never 0: a masked key's infinite distance times 0 would be NaN.
    for (int r = 0; r < s_.rows; ++r)
      factors[r] = r < rows_.count ? std::max(factors[r] * to_units, std::numeric_limits<float>::min()) : 1.0f;
  }

  // Scores of all maps. Again: for p alone, when the first time's sums have become weights.
  enum class Pass { kFirst, kAgain };
  void ScoreTiles(int64_t tile, int64_t end, Pass pass) const {
    for (; tile < end; ++tile) {
      const bool masked = MaskTile(p_, rows_, s_.rows, tile, x_.begin, x_.end);
      for (int map = 0; map < Maps(); ++map) {
        float* max = pass == Pass::kFirst ? Max(map, tile) : x_.block_max;
        int32_t* sum = pass == Pass::kFirst ? PSums(map, tile) : x_.code_sums;
        if (plan_.logits != Format::kF32)
          LookUp(map, tile, masked, max, sum);
        else
          Score(map, tile, masked, max, sum);
      }
    }
  }

  int64_t KeyTile(int map, int64_t tile) const { return (map == 0 ? head_.k1 : head_.k2) * s_.tiles + tile; }

  void Multiply(int map, int64_t k) const {
    products_.scores.Run(x_.q + map * s_.rows * s_.d4, k_.k_codes + k * kTile * s_.d4, x_.sums);
  }

  void Score(int map, int64_t tile, bool masked, float* max, int32_t* sum) const {
    const int64_t k = KeyTile(map, tile);
    Multiply(map, k);
    ScoreStage({.rows = s_.rows,
                .sums = x_.sums,
                .offsets = k_.k_offsets + k * kTile,
                .key_scales = k_.k_scales + k * kTile,
                .row_factors = x_.factors + map * s_.rows,
                .begin = masked ? x_.begin : nullptr,
                .end = masked ? x_.end : nullptr,
                .p = P(map, tile),
                .max = max,
                .sum = sum});
  }

  // Quantized logits: all of a row's, then its scale and table.
  void KeepLogits() const {
    std::fill_n(x_.logit_inv, 2 * s_.rows, 0.0f);
    for (int64_t tile = rows_.begin_tile; tile < rows_.end_tile; ++tile) {
      const bool masked = MaskTile(p_, rows_, s_.rows, tile, x_.begin, x_.end);
      for (int map = 0; map < Maps(); ++map) {
        const int64_t k = KeyTile(map, tile);
        Multiply(map, k);
        Logits({.rows = s_.rows,
                .sums = x_.sums,
                .offsets = k_.k_offsets + k * kTile,
                .key_scales = k_.k_scales + k * kTile,
                .begin = masked ? x_.begin : nullptr,
                .end = masked ? x_.end : nullptr,
                .z = reinterpret_cast<float*>(P(map, tile)),
                .absmax = x_.logit_inv + map * s_.rows});
      }
    }
    for (int map = 0; map < Maps(); ++map)
      LogitTables(
          s_.rows, Info(plan_.logits).max_code,
          {x_.logit_inv + map * s_.rows, x_.factors + map * s_.rows, x_.logit_table + map * s_.rows * kLogitEntries});
  }

  void LookUp(int map, int64_t tile, bool masked, float* max, int32_t* sum) const {
    Lookups({.rows = s_.rows,
             .qmax = Info(plan_.logits).max_code,
             .z = reinterpret_cast<const float*>(P(map, tile)),
             .inv = x_.logit_inv + map * s_.rows,
             .step = x_.factors + map * s_.rows,
             .table = x_.logit_table + map * s_.rows * kLogitEntries,
             .begin = masked ? x_.begin : nullptr,
             .end = masked ? x_.end : nullptr,
             .p = P(map, tile),
             .max = max,
             .sum = sum});
  }

  // codes x V of tiles [tile, end), all in one block, added to out.
  void TimesV(int64_t tile, int64_t end, bool first, float* out, bool shifted) const {
    const int64_t block = tile / s_.block_tiles;
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      const int64_t v = head_.v[slice];
      const int32_t* sums = k_.v_sums + (v * (s_.tiles + s_.blocks) + block + tile) * s_.columns;
      for (int column = 0; column < s_.columns; column += kTile) {
        for (int i = 0; i < kTile; ++i)
          x_.offsets[i] = shifted ? 128 * (sums[(end - tile) * s_.columns + column + i] - sums[column + i]) : 0;
        products_.values[end - tile]->Run(
            x_.codes, k_.v_codes + ((v * s_.columns + column) * s_.tiles + tile * kTile) * kTile, x_.sums);
        const OutputTile output{.rows = s_.rows,
                                .sums = x_.sums,
                                .offsets = x_.offsets,
                                .v_scales = k_.v_scales + (v * s_.blocks + block) * s_.columns + column,
                                .row_scales = x_.row_scales,
                                .out = out + slice * s_.columns + column,
                                .stride = OutWidth()};
        if (first)
          OverwriteOutput(output);
        else
          AddOutput(output);
      }
    }
  }

  int64_t BlockEnd(int64_t tile) const {
    return std::min(rows_.end_tile, (tile / s_.block_tiles + 1) * s_.block_tiles);
  }

  void Early() const {
    const bool kept = s_.kept == s_.tiles;
    for (int64_t tile = rows_.begin_tile, end; tile < rows_.end_tile; tile = end) {
      end = BlockEnd(tile);
      ScoreTiles(tile, end, Pass::kFirst);
    }
    const int seen = static_cast<int>(rows_.end_tile - rows_.begin_tile);
    for (int map = 0; map < 2; ++map)
      EarlyWeights(s_.rows, seen, map == 0 ? nullptr : x_.lambda, PSums(map, rows_.begin_tile),
                   Max(map, rows_.begin_tile));
    for (int64_t tile = rows_.begin_tile, end; tile < rows_.end_tile; tile = end) {
      end = BlockEnd(tile);
      if (!kept) ScoreTiles(tile, end, Pass::kAgain);
      const int tiles = static_cast<int>(end - tile);
      int16_t* a2 = x_.early + s_.block_tiles * s_.rows;
      EarlyFactors(s_.rows, tiles, Max(0, tile), Max(1, tile), x_.early, a2, x_.row_scales);
      EarlyStage({.rows = s_.rows,
                  .tiles = tiles,
                  .qmax = Info(plan_.p).max_code,
                  .p1 = P(0, tile),
                  .p2 = P(1, tile),
                  .tile_stride = s_.p_stride,
                  .a1 = x_.early,
                  .a2 = a2,
                  .codes = x_.codes,
                  .stride = plan_.block,
                  .scales = x_.row_scales});
      TimesV(tile, end, tile == rows_.begin_tile, Out(0), true);
    }
  }

  void Late() const {
    for (int map = 0; map < Maps(); ++map) {
      std::fill_n(x_.reference + map * s_.rows, s_.rows, -std::numeric_limits<float>::infinity());
      std::fill_n(x_.norm + map * s_.rows, s_.rows, 0.0f);
    }
    for (int64_t tile = rows_.begin_tile, end; tile < rows_.end_tile; tile = end) {
      end = BlockEnd(tile);
      ScoreTiles(tile, end, Pass::kFirst);
      const int tiles = static_cast<int>(end - tile);
      for (int map = 0; map < Maps(); ++map) {
        LateFactors(s_.rows, tiles, Info(plan_.p).max_code, Max(map, tile), x_.block_max, x_.late);
        LateStage({.rows = s_.rows,
                   .tiles = tiles,
                   .p = P(map, tile),
                   .tile_stride = s_.p_stride,
                   .factors = x_.late,
                   .codes = x_.codes,
                   .stride = plan_.block,
                   .sums = x_.code_sums});
        Merge(map);
        TimesV(tile, end, tile == rows_.begin_tile, Out(map), false);
      }
    }
  }

  // f32 has the exponents to keep a row's first maximum as its reference until a block exceeds it by 60 octaves.
  void Merge(int map) const {
    constexpr float kFar = 60.0f * kExpUnitsPerOctave, kPerOctave = 1.0f / kExpUnitsPerOctave;
    float* reference = x_.reference + map * s_.rows;
    float* norm = x_.norm + map * s_.rows;
    for (int r = 0; r < s_.rows; ++r) {
      if (x_.block_max[r] - reference[r] > kFar) {
        const float shrink = RowExp2((reference[r] - x_.block_max[r]) * kPerOctave);
        norm[r] *= shrink;
        if (norm[r] > 0)
          for (int i = 0; i < OutWidth(); ++i) Out(map)[r * OutWidth() + i] *= shrink;
        reference[r] = x_.block_max[r];
      }
      x_.row_scales[r] = RowExp2((x_.block_max[r] - reference[r]) * kPerOctave);
      norm[r] += x_.row_scales[r] * static_cast<float>(x_.code_sums[r]);
    }
  }

  // norm becomes what each map is multiplied with; early: the codes were differences of normalised maps already.
  void Finish() const {
    const bool late = plan_.order == AttentionPlan::Order::kLate, two = late && head_.Differential();
    float* one = x_.norm;
    float* rest = x_.reference;
    for (int r = 0; r < rows_.count; ++r) {
      one[r] = !late ? 1.0f : one[r] > 0 ? 1.0f / one[r] : 0.0f;
      if (two) one[s_.rows + r] = one[s_.rows + r] > 0 ? x_.lambda[r] / one[s_.rows + r] : 0.0f;
      const KeyRange keys = p_.mask.Keys(rows_.first + r, s_.queries, s_.keys);
      rest[r] = keys.begin < keys.end ? 1.0f - x_.lambda[r] : 0.0f;
    }
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      WriteOutput({.rows = rows_.count,
                   .width = p_.v.width,
                   .first = Out(0) + slice * s_.columns,
                   .second = two ? Out(1) + slice * s_.columns : nullptr,
                   .stride = OutWidth(),
                   .one = one,
                   .two = one + s_.rows,
                   .mean = plan_.v_mean == nullptr ? nullptr : plan_.v_mean + head_.v[slice] * p_.v.width,
                   .rest = rest,
                   .to = p_.out.Row(rows_.first, head_index_) + slice * p_.v.width,
                   .to_stride = p_.out.token_stride});
    }
  }

  const AttentionPlan& plan_;
  const AttentionProblem& p_;
  const Sizes& s_;
  const Packed& k_;
  const Products& products_;
  const Scratch& x_;
  int head_index_;
  const OutputHead& head_;
  RowBlock rows_;
};

}  // namespace

void CheckPlan(const AttentionPlan& plan, const AttentionProblem& problem) {
  const auto check_signed = [](const char* name, Format format) {
    if (Info(format).min_code >= 0)
      Fail("attention plan, {}: got {}, expected int8, int6 or int4", name, Info(format).name);
  };
  check_signed("q", plan.q);
  check_signed("k", plan.k);
  check_signed("v", plan.v);
  if (plan.logits != Format::kF32) check_signed("attn_logits", plan.logits);
  if (plan.order == AttentionPlan::Order::kEarly)
    check_signed("difference", plan.p);
  else if (plan.p != Format::kU8 && plan.p != Format::kU6 && plan.p != Format::kU4)
    Fail("attention plan, probs: got {}, expected u8, u6 or u4", Info(plan.p).name);
  if (plan.block < kTile || plan.block > kLargestBlock || plan.block % kTile != 0)
    Fail("attention plan: got key blocks of {}, expected a multiple of {} up to {}", plan.block, kTile, kLargestBlock);
  for (size_t row = 0; row < problem.heads.size(); ++row) {
    if (plan.order == AttentionPlan::Order::kEarly && !problem.heads[row].Differential())
      Fail("attention plan, head table row {}: got one map and the early order, expected two maps; try the late order",
           row);
  }
  for (const int width : {problem.q.width, problem.v.width}) {
    if (width > kLargestWidth) Fail("attention: got heads of width {}, expected at most {}", width, kLargestWidth);
  }
  if (!(problem.scale > 0)) Fail("attention scale: got {}, expected more than 0", problem.scale);
}

size_t WorkspaceBytes(const AttentionPlan& plan, const AttentionProblem& problem) {
  const Sizes sizes = SizesOf(plan, problem);
  Arena arena(0);
  CarvePacked(arena, sizes, problem);
  for (int t = 0; t < Threads(); ++t) CarveScratch(arena, sizes, plan, problem);
  return arena.used();
}

void ExecutedAttention(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace) {
  CheckProblem(problem);
  CheckPlan(plan, problem);
  const Sizes sizes = SizesOf(plan, problem);
  Arena arena(reinterpret_cast<uintptr_t>(workspace.data()));
  const Packed packed = CarvePacked(arena, sizes, problem);
  const uintptr_t scratch_base = reinterpret_cast<uintptr_t>(workspace.data()) + arena.used();
  CarveScratch(arena, sizes, plan, problem);
  const size_t scratch_bytes = arena.used() - (scratch_base - reinterpret_cast<uintptr_t>(workspace.data()));
  if (reinterpret_cast<uintptr_t>(workspace.data()) % 64 != 0)
    Fail("attention workspace: got a pointer off the 64-byte boundary");
  if (const size_t bytes = WorkspaceBytes(plan, problem); workspace.size() < bytes)
    Fail("attention workspace: got {} bytes, expected {}", workspace.size(), bytes);
  const Products products = ProductsOf(sizes, plan);
  Packer(plan, problem, sizes, packed).Run();
  ParallelFor(problem.heads.size() * static_cast<size_t>(sizes.row_blocks), [&](size_t unit, int thread) {
    Arena own(scratch_base + static_cast<uintptr_t>(thread) * scratch_bytes);
    const Scratch scratch = CarveScratch(own, sizes, plan, problem);
    Unit(plan, problem, sizes, packed, products, scratch, static_cast<int64_t>(unit)).Run();
  });
}

}  // namespace tare
