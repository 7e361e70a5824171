// SPDX-License-Identifier: Apache-2.0
// See executed_attention.h. First K and V are packed, then every (output head, block of query rows) is one unit of
// work.
#include "kernels/attention/executed_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/attention/code_stage.h"
#include "kernels/attention/fixed_exp.h"
#include "kernels/attention/output_stage.h"
#include "kernels/attention/packing.h"
#include "kernels/attention/row_exp2.h"
#include "kernels/attention/score_stage.h"
#include "kernels/product/tile_product.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

constexpr int kLargestBlock = 1024;
constexpr int kLargestRows = 64;

// Hands out pieces of a buffer on 64-byte boundaries; from base 0 it only counts.
class Arena {
 public:
  explicit Arena(uintptr_t base) : base_(base) {}
  template <typename T>
  T* Take(int64_t count) {
    T* piece = reinterpret_cast<T*>(base_ + used_);
    used_ += static_cast<uintptr_t>(RoundUp(count * static_cast<int64_t>(sizeof(T)), 64));
    return piece;
  }
  size_t used() const { return used_; }

 private:
  uintptr_t base_;
  uintptr_t used_ = 0;
};

struct Sizes {
  int64_t queries, keys;
  int d4;           // width of q and k, rounded up to 4
  int columns;      // width of a V slice, rounded up to 64
  int64_t tiles;    // of 64 keys
  int block_tiles;  // tiles of a block
  int64_t blocks;
  int rows;  // of a unit
  int64_t row_blocks;
  int64_t kept;  // tiles of p that a unit keeps for each map
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
  uint8_t* q;          // [2][rows][d4]
  float* factors;      // [2][rows]
  float* lambda;       // [rows]
  int32_t* begin;      // [rows]
  int32_t* end;        // [rows]
  int32_t* sums;       // [rows][64]
  int16_t* p;          // [2][kept][rows][64]
  float* max;          // [2][tiles][rows]; early: becomes the weights
  int32_t* p_sums;     // [2][tiles][rows]
  float* late;         // [block tiles][rows]
  int16_t* early;      // [2][block tiles][rows]
  float* block_max;    // [rows]
  int32_t* code_sums;  // [rows]
  float* row_scales;   // [rows]
  int32_t* offsets;    // [64]
  uint8_t* codes;      // [rows][block]
  float* out;          // [2][rows][slices * columns]
  float* reference;    // [2][rows]
  float* norm;         // [2][rows]
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
  s.kept = s.block_tiles;
  if (plan.order == AttentionPlan::Order::kEarly) {
    s.kept = s.tiles;
  }
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
  x.p = arena.Take<int16_t>(2 * s.kept * rows * kTile);
  x.max = arena.Take<float>(2 * s.tiles * rows);
  x.p_sums = arena.Take<int32_t>(2 * s.tiles * rows);
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

  void Keys(int64_t unit) const {
    const int64_t head = unit / s_.tiles, tile = unit % s_.tiles;
    const float* mean = plan_.k_mean == nullptr ? nullptr : plan_.k_mean + head * p_.k.width;
    PackKeyTile(p_.k, static_cast<int>(head), tile, plan_.k, mean, x_.k_codes + unit * kTile * s_.d4,
                x_.k_offsets + unit * kTile, x_.k_scales + unit * kTile);
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
    ParallelFor(static_cast<size_t>(p_.k.heads * s_.tiles),
                [&](size_t unit, int) { Keys(static_cast<int64_t>(unit)); });
    const size_t blocks = static_cast<size_t>(p_.v.heads * s_.blocks);
    ParallelFor(blocks, [&](size_t unit, int) { ValueMagnitudes(static_cast<int64_t>(unit)); });
    if (plan_.v_scale == AttentionPlan::ValueScale::kSequence) ShareMagnitudes();
    ParallelFor(blocks, [&](size_t unit, int) { Values(static_cast<int64_t>(unit)); });
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
    // Late rows first: they see the most keys, and the last units handed out are short.
    first_row_ = (s.row_blocks - 1 - unit % s.row_blocks) * s.rows;
    count_ = static_cast<int>(std::min<int64_t>(s.rows, s.queries - first_row_));
    const KeyRange first = p.mask.Keys(first_row_, s.queries, s.keys),
                   last = p.mask.Keys(first_row_ + count_ - 1, s.queries, s.keys);
    begin_tile_ = first.begin / kTile;
    end_tile_ = RoundUp(last.end, kTile) / kTile;
  }

  void Run() {
    if (end_tile_ <= begin_tile_) return Zeros();
    LoadQueries(0, head_.q1);
    if (head_.Differential()) LoadQueries(1, head_.q2);
    for (int r = 0; r < s_.rows; ++r)
      x_.lambda[r] = r < count_ && head_.Differential() ? p_.lambda.At(first_row_ + r, head_index_) : 0.0f;
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
  float* Max(int map, int64_t tile) const { return x_.max + (map * s_.tiles + tile) * s_.rows; }
  int32_t* PSums(int map, int64_t tile) const { return x_.p_sums + (map * s_.tiles + tile) * s_.rows; }
  int16_t* P(int map, int64_t tile) const { return x_.p + (map * s_.kept + tile % s_.kept) * s_.rows * kTile; }

  void Zeros() const {
    for (int r = 0; r < count_; ++r) std::fill_n(p_.out.Row(first_row_ + r, head_index_), p_.out.width, 0.0f);
  }

  void LoadQueries(int map, int q) const {
    uint8_t* codes = x_.q + map * s_.rows * s_.d4;
    float* factors = x_.factors + map * s_.rows;
    PackQueries(p_.q, q, first_row_, count_, plan_.q, codes, factors);
    std::fill(codes + count_ * s_.d4, codes + s_.rows * s_.d4, uint8_t{128});
    constexpr float kLog2E = 1.44269504f;
    const float to_units = p_.scale * (kLog2E * kExpUnitsPerOctave);
    // Never 0: a masked key's infinite distance times 0 would be NaN.
    for (int r = 0; r < s_.rows; ++r)
      factors[r] = r < count_ ? std::max(factors[r] * to_units, std::numeric_limits<float>::min()) : 1.0f;
  }

  // Which keys of a tile each row sees; false if all rows see all 64.
  bool Masked(int64_t tile) const {
    bool masked = false;
    const int64_t key = tile * kTile;
    for (int r = 0; r < s_.rows; ++r) {
      KeyRange keys{};
      if (r < count_) keys = p_.mask.Keys(first_row_ + r, s_.queries, s_.keys);
      x_.begin[r] = static_cast<int32_t>(std::clamp<int64_t>(keys.begin - key, 0, kTile));
      x_.end[r] = static_cast<int32_t>(std::clamp<int64_t>(keys.end - key, 0, kTile));
      masked |= r < count_ && (x_.begin[r] > 0 || x_.end[r] < kTile);
    }
    return masked;
  }

  void ScoreTiles(int64_t tile, int64_t end) const {
    for (; tile < end; ++tile) {
      const bool masked = Masked(tile);
      for (int map = 0; map < Maps(); ++map) {
        const int64_t k = (map == 0 ? head_.k1 : head_.k2) * s_.tiles + tile;
        products_.scores.Run(x_.q + map * s_.rows * s_.d4, k_.k_codes + k * kTile * s_.d4, x_.sums);
        ScoreStage({.rows = s_.rows,
                    .sums = x_.sums,
                    .offsets = k_.k_offsets + k * kTile,
                    .key_scales = k_.k_scales + k * kTile,
                    .row_factors = x_.factors + map * s_.rows,
                    .begin = masked ? x_.begin : nullptr,
                    .end = masked ? x_.end : nullptr,
                    .p = P(map, tile),
                    .max = Max(map, tile),
                    .sum = PSums(map, tile)});
      }
    }
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

  int64_t BlockEnd(int64_t tile) const { return std::min(end_tile_, (tile / s_.block_tiles + 1) * s_.block_tiles); }

  void Early() const {
    ScoreTiles(begin_tile_, end_tile_);
    const int seen = static_cast<int>(end_tile_ - begin_tile_);
    for (int map = 0; map < 2; ++map)
      EarlyWeights(s_.rows, seen, map == 0 ? nullptr : x_.lambda, PSums(map, begin_tile_), Max(map, begin_tile_));
    for (int64_t tile = begin_tile_, end; tile < end_tile_; tile = end) {
      end = BlockEnd(tile);
      const int tiles = static_cast<int>(end - tile);
      int16_t* a2 = x_.early + s_.block_tiles * s_.rows;
      EarlyFactors(s_.rows, tiles, Max(0, tile), Max(1, tile), x_.early, a2, x_.row_scales);
      EarlyStage({.rows = s_.rows,
                  .tiles = tiles,
                  .qmax = Info(plan_.p).max_code,
                  .p1 = P(0, tile),
                  .p2 = P(1, tile),
                  .a1 = x_.early,
                  .a2 = a2,
                  .codes = x_.codes,
                  .stride = plan_.block,
                  .scales = x_.row_scales});
      TimesV(tile, end, tile == begin_tile_, Out(0), true);
    }
  }

  void Late() const {
    for (int map = 0; map < Maps(); ++map) {
      std::fill_n(x_.reference + map * s_.rows, s_.rows, -std::numeric_limits<float>::infinity());
      std::fill_n(x_.norm + map * s_.rows, s_.rows, 0.0f);
    }
    for (int64_t tile = begin_tile_, end; tile < end_tile_; tile = end) {
      end = BlockEnd(tile);
      ScoreTiles(tile, end);
      const int tiles = static_cast<int>(end - tile);
      for (int map = 0; map < Maps(); ++map) {
        LateFactors(s_.rows, tiles, Info(plan_.p).max_code, Max(map, tile), x_.block_max, x_.late);
        LateStage({.rows = s_.rows,
                   .tiles = tiles,
                   .p = P(map, tile),
                   .factors = x_.late,
                   .codes = x_.codes,
                   .stride = plan_.block,
                   .sums = x_.code_sums});
        Merge(map);
        TimesV(tile, end, tile == begin_tile_, Out(map), false);
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

  void Finish() const {
    const bool early = plan_.order == AttentionPlan::Order::kEarly;
    for (int r = 0; r < count_; ++r) {
      float* out = p_.out.Row(first_row_ + r, head_index_);
      const float one = early ? 1.0f : x_.norm[r] > 0 ? 1.0f / x_.norm[r] : 0.0f;
      float two = 0;
      if (!early && head_.Differential() && x_.norm[s_.rows + r] > 0) two = x_.lambda[r] / x_.norm[s_.rows + r];
      for (int slice = 0; slice < head_.VSlices(); ++slice) {
        const float* first = Out(0) + r * OutWidth() + slice * s_.columns;
        const float* second = Out(1) + r * OutWidth() + slice * s_.columns;
        float* to = out + slice * p_.v.width;
        if (two == 0.0f) {
          for (int i = 0; i < p_.v.width; ++i) to[i] = first[i] * one;
        } else {
          for (int i = 0; i < p_.v.width; ++i) to[i] = first[i] * one - second[i] * two;
        }
        if (plan_.v_mean != nullptr) {
          const KeyRange keys = p_.mask.Keys(first_row_ + r, s_.queries, s_.keys);
          const float rest = keys.begin < keys.end ? 1.0f - x_.lambda[r] : 0.0f;
          const float* mean = plan_.v_mean + head_.v[slice] * p_.v.width;
          for (int i = 0; i < p_.v.width; ++i) to[i] += rest * mean[i];
        }
      }
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
  int64_t first_row_ = 0;
  int count_ = 0;
  int64_t begin_tile_ = 0;
  int64_t end_tile_ = 0;
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
