// SPDX-License-Identifier: Apache-2.0
// RunBlock of executed_layout.h.
#include "kernels/attention/integer/executed_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/attention/exponentials.h"
#include "kernels/attention/integer/code_stage.h"
#include "kernels/attention/integer/packing.h"

namespace tare {
namespace {

struct Block {
  const PackedHeads& packed;
  const ExecutedProducts& products;
  const ExecutedScratch& scratch;
  int64_t index;
  const ExecutedLayout& layout = scratch.l;
  const AttentionPlan& plan = layout.plan;
  const AttentionProblem& problem = layout.problem;
  const int rows = layout.rows;
  const RowBlock block = BlockOfRows(problem, rows, layout.row_blocks, index);
  const OutputHead& head = problem.heads[static_cast<size_t>(block.head)];

  void Run() const {
    if (block.begin_tile == block.end_tile) return WriteZeros(problem, block);
    for (int map = 0; map < head.Maps(); ++map) LoadQueries(map);
    LoadLambda(problem, block, rows, scratch.lambda);
    if (layout.CodesLogits()) KeepLogits();
    if (layout.Early())
      Early();
    else
      Late();
    Finish();
  }

  int OutWidth() const { return head.VSlices() * layout.columns; }
  int64_t BlockOf(int64_t tile) const { return tile / layout.block_tiles; }

  // A map's part of what scratch has per map; of `tile`, where it has that too.
  float* Out(int map, int64_t column) const { return scratch.out + (map * OutWidth() + column) * rows; }
  float* Of(float* of_maps, int map) const { return of_maps + map * rows; }
  uint16_t* LogitTable(int map) const { return scratch.logit_table + map * rows * kLogitEntries; }
  int64_t Scored(int map, int64_t tile) const { return (map * layout.scored + tile % layout.scored) * rows; }
  float* TileMax(int map, int64_t tile) const { return scratch.tile_max + Scored(map, tile); }
  // The sink's logit in 1/2048 octaves; -inf without a sink.
  float SinkUnits(int map) const { return problem.Sink(head.Q(map)) * (kLog2E * kExpUnitsPerOctave); }
  float* Weights(int map, int64_t tile) const { return scratch.weights + Scored(map, tile); }
  int32_t* ExpSums(int map, int64_t tile) const { return scratch.exp_sums + Scored(map, tile); }
  int64_t Kept(int map, int64_t tile) const { return (map * layout.kept + tile % layout.kept) * layout.exps_stride; }
  int16_t* Exps(int map, int64_t tile) const { return scratch.exps + Kept(map, tile); }
  float* Logits(int map, int64_t tile) const { return scratch.logits + Kept(map, tile) / 2; }

  void LoadQueries(int map) const {
    const int q = head.Q(map), d4 = layout.d4;
    uint8_t* codes = scratch.q_codes + map * rows * d4;
    float* scales = scratch.q_scales;
    const float* mean = plan.q_mean == nullptr ? nullptr : plan.q_mean + q * problem.q.width;
    const float* absmax = plan.q_absmax == nullptr ? nullptr : plan.q_absmax + q * problem.q.tokens;
    PackQueries(Widened(problem.q, q, block.first, block.count, scratch.wide), q, block.first, block.count, plan.q,
                mean, codes, scales, absmax);
    std::fill(codes + block.count * d4, codes + rows * d4, uint8_t{128});
    if (mean != nullptr) InvertScales(codes, scales, Of(scratch.q_inv, map));
    const float to_units = problem.scale * (kLog2E * kExpUnitsPerOctave);
    // Never 0: a masked key's infinite distance times 0 would be NaN.
    float* factors = Of(scratch.row_factors, map);
    for (int r = 0; r < rows; ++r) {
      factors[r] = r < block.count ? std::max(scales[r] * to_units, std::numeric_limits<float>::min()) : 1.0f;
      if (problem.softcap != 0) Of(scratch.row_cap, map)[r] = CapOfRow(problem.softcap, factors[r]);
    }
  }

  // 1 / q scale of every row, where a row that is the mean alone has codes 0 of scale 1.
  void InvertScales(uint8_t* codes, float* scales, float* inv) const {
    for (int r = 0; r < rows; ++r) {
      if (r >= block.count || scales[r] < kMeanOnlyScale) {
        std::fill_n(codes + r * layout.d4, layout.d4, uint8_t{128});
        scales[r] = 1.0f;
      }
      inv[r] = 1.0f / scales[r];
    }
  }

  // Throws Error where a row that sees keys has a largest logit, in 1/2048 octaves, that the exponential cannot take.
  void CheckLargest(int map, int r, float largest) const {
    if (std::abs(largest) < kMostLogit * (kLog2E * kExpUnitsPerOctave)) return;
    const KeyRange keys = problem.Keys(block.first + r);
    if (keys.begin < keys.end) FailLogit(block.first + r, head.Q(map));
  }

  // Calls visit(tile, map, sums) with the product of Q and K for all maps of tiles [tile, end).
  template <class Visit>
  void ForEachProduct(int64_t tile, int64_t end, Visit visit) const {
    for (; tile < end; ++tile) {
      const bool masked = MaskTile(problem, block, rows, tile, scratch.begin, scratch.end);
      for (int map = 0; map < head.Maps(); ++map) visit(tile, map, masked);
    }
  }

  LogitSums Sums(int64_t tile, int map, bool masked) const {
    const int64_t key = layout.KeyTile(head.K(map), tile) * kTile;
    products.scores.Run(scratch.q_codes + map * rows * layout.d4, packed.k_codes + key * layout.d4, scratch.sums);
    const int64_t bias = layout.BiasTile(block.head, map, tile) * kTile;
    return {.rows = rows,
            .sums = scratch.sums,
            .offsets = packed.k_offsets + key,
            .key_scales = packed.k_scales + key,
            .key_bias = plan.q_mean == nullptr ? nullptr : packed.k_bias + bias,
            .row_inv = Of(scratch.q_inv, map),
            .row_cap = problem.softcap == 0 ? nullptr : Of(scratch.row_cap, map),
            .begin = masked ? scratch.begin : nullptr,
            .end = masked ? scratch.end : nullptr};
  }

  // Quantized logits: all of a row's, then its scale and table.
  void KeepLogits() const {
    std::fill_n(scratch.logit_absmax, 2 * rows, 0.0f);
    ForEachProduct(block.begin_tile, block.end_tile, [&](int64_t tile, int map, bool masked) {
      LogitStage(
          {.sums = Sums(tile, map, masked), .logits = Logits(map, tile), .absmax = Of(scratch.logit_absmax, map)});
    });
    for (int map = 0; map < head.Maps(); ++map) {
      for (int r = 0; r < block.count; ++r)
        CheckLargest(map, r, Of(scratch.logit_absmax, map)[r] * Of(scratch.row_factors, map)[r]);
      LogitTables({.rows = rows,
                   .qmax = Info(plan.logits).max_code,
                   .absmax = Of(scratch.logit_absmax, map),
                   .row_factors = Of(scratch.row_factors, map),
                   .inv = Of(scratch.logit_inv, map),
                   .steps = Of(scratch.logit_steps, map),
                   .table = LogitTable(map)});
    }
  }

  void Score(int64_t tile, int map, bool masked, float* max, int32_t* exp_sums) const {
    if (!layout.CodesLogits())
      return ScoreStage({.logits = Sums(tile, map, masked),
                         .row_factors = Of(scratch.row_factors, map),
                         .exps = Exps(map, tile),
                         .max = max,
                         .exp_sums = layout.SumsExps() ? exp_sums : nullptr});
    LookupStage({.rows = rows,
                 .qmax = Info(plan.logits).max_code,
                 .logits = Logits(map, tile),
                 .inv = Of(scratch.logit_inv, map),
                 .steps = Of(scratch.logit_steps, map),
                 .table = LogitTable(map),
                 .begin = masked ? scratch.begin : nullptr,
                 .end = masked ? scratch.end : nullptr,
                 .exps = Exps(map, tile),
                 .max = max,
                 .exp_sums = exp_sums});
  }

  void ScoreTiles(int64_t tile, int64_t end) const {
    ForEachProduct(tile, end,
                   [&](int64_t t, int map, bool masked) { Score(t, map, masked, TileMax(map, t), ExpSums(map, t)); });
  }

  // Computes only the exponentials again: early, weights have replaced the maxima of the first pass.
  void ScoreAgain(int64_t tile, int64_t end) const {
    ForEachProduct(tile, end, [&](int64_t t, int map, bool masked) {
      Score(t, map, masked, scratch.spare_max, /*exp_sums=*/nullptr);
    });
  }

  // Calls visit(tile, end) for the pieces of [tile, end) that begin at multiples of `step`.
  template <class Visit>
  static void ForEachPiece(int64_t tile, int64_t end, int64_t step, Visit visit) {
    for (int64_t next; tile < end; tile = next) {
      next = std::min(end, (tile / step + 1) * step);
      visit(tile, next);
    }
  }

  template <class Visit>
  void ForEachBlock(int64_t tile, int64_t end, Visit visit) const {
    ForEachPiece(tile, end, layout.block_tiles, visit);
  }

  template <class Visit>
  void ForEachGroup(Visit visit) const {
    ForEachPiece(block.begin_tile, block.end_tile, layout.group_blocks * layout.block_tiles, visit);
  }

  // A group's codes [tile, end) x V, added to out, 64 columns at a time, so that these stay in the first cache.
  void TimesV(int map, int64_t tile, int64_t end) const {
    for (int slice = 0; slice < head.VSlices(); ++slice) {
      for (int64_t column = 0; column < layout.columns; column += kTile) {
        float* out = Out(map, slice * layout.columns + column);
        ForEachBlock(tile, end, [&](int64_t first, int64_t last) {
          const uint8_t* codes = scratch.codes + map * rows * layout.code_stride + (first - tile) * kTile;
          BlockTimesV(codes, head.v[slice], column, first, last, (BlockOf(first) - BlockOf(tile)) * rows, out);
        });
      }
    }
  }

  // row: where those of the block begin in what scratch has per block of the group.
  void BlockTimesV(const uint8_t* codes, int64_t v, int64_t column, int64_t first, int64_t last, int64_t row,
                   float* out) const {
    const int64_t tiles = layout.tiles, columns = layout.columns, of_keys = BlockOf(first);
    products.values[last - first]->Run(codes, packed.v_codes + ((v * columns + column) * tiles + first * kTile) * kTile,
                                       scratch.sums);
    const OutputTile output{.rows = rows,
                            .sums = scratch.sums,
                            .zeros = layout.Early() ? scratch.zeros + row : nullptr,
                            .v_sums = layout.Early() ? ValueSums(v, column, first, last) : nullptr,
                            .v_scales = packed.v_scales + (v * layout.blocks + of_keys) * columns + column,
                            .row_scales = scratch.row_scales + row,
                            .out = out};
    if (first == block.begin_tile)
      OverwriteOutput(output);
    else
      AddOutput(output);
  }

  // Sums of V's codes in 64 columns, over tiles [first, last), all in one block.
  const int32_t* ValueSums(int64_t v, int64_t column, int64_t first, int64_t last) const {
    const int64_t columns = layout.columns;
    const int64_t before = v * (layout.tiles + layout.blocks) + BlockOf(first) + first;
    const int32_t* sums = packed.v_sums + before * columns + column;
    for (int64_t i = 0; i < kTile; ++i) scratch.v_sums[i] = sums[(last - first) * columns + i] - sums[i];
    return scratch.v_sums;
  }

  void Early() const {
    ScoreTiles(block.begin_tile, block.end_tile);
    const int seen = static_cast<int>(block.end_tile - block.begin_tile);
    for (int map = 0; map < 2; ++map) {
      float* const max = TileMax(map, block.begin_tile);
      int32_t* const sums = ExpSums(map, block.begin_tile);
      int tiles = seen;
      if (!problem.sinks.empty()) {  // one more tile, of one key; what its weights become is not used
        std::fill_n(max + tiles * rows, rows, SinkUnits(map));
        std::fill_n(sums + tiles * rows, rows, kExpLargest);
        ++tiles;
      }
      WriteTilesLse(problem, block, map, rows, tiles, max, sums, kExpUnitsPerOctave, kExpLargest);
      EarlyWeights(rows, tiles, map == 0 ? nullptr : scratch.lambda, max, sums, scratch.spare_max,
                   Weights(map, block.begin_tile));
      for (int r = 0; r < block.count; ++r) CheckLargest(map, r, scratch.spare_max[r]);
    }
    ForEachGroup([&](int64_t tile, int64_t end) {
      ForEachBlock(tile, end, [&](int64_t first, int64_t last) {
        if (layout.kept < layout.tiles) ScoreAgain(first, last);
        EarlyBlock(first, last, first - tile, BlockOf(first) - BlockOf(tile));
      });
      TimesV(0, tile, end);
    });
  }

  // of_group: the block's number in its group, which `tiles` tiles of the group come before.
  void EarlyBlock(int64_t first, int64_t last, int64_t tiles, int64_t of_group) const {
    EarlyStage({.rows = rows,
                .tiles = static_cast<int>(last - first),
                .format = plan.probs,
                .weights1 = Weights(0, first),
                .weights2 = Weights(1, first),
                .exps1 = Exps(0, first),
                .exps2 = Exps(1, first),
                .tile_stride = layout.exps_stride,
                .codes = scratch.codes + tiles * kTile,
                .stride = layout.code_stride,
                .scales = scratch.row_scales + of_group * rows,
                .zeros = scratch.zeros + of_group * rows});
  }

  // A scale per row: all maxima first, of which the largest is the reference for good.
  void FindReferences() const {
    ScoreTiles(block.begin_tile, block.end_tile);
    for (int map = 0; map < head.Maps(); ++map) {
      float* const reference = Of(scratch.reference, map);
      for (int64_t tile = block.begin_tile; tile < block.end_tile; ++tile) {
        const float* const max = TileMax(map, tile);
        for (int r = 0; r < rows; ++r) reference[r] = std::max(reference[r], max[r]);
      }
    }
  }

  void Late() const {
    std::fill_n(scratch.reference, 2 * rows, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch.norm, 2 * rows, 0.0f);
    if (layout.ScaledByRow()) FindReferences();
    ForEachGroup([&](int64_t tile, int64_t end) {
      ForEachBlock(tile, end, [&](int64_t first, int64_t last) {
        if (!layout.ScaledByRow())
          ScoreTiles(first, last);
        else if (layout.kept < layout.tiles)
          ScoreAgain(first, last);
        for (int map = 0; map < head.Maps(); ++map)
          LateBlock(map, first, last, first - tile, BlockOf(first) - BlockOf(tile));
      });
      for (int map = 0; map < head.Maps(); ++map) {
        MergeGroup(map, tile, end);
        TimesV(map, tile, end);
      }
    });
  }

  void LateBlock(int map, int64_t first, int64_t last, int64_t tiles, int64_t of_group) const {
    const int64_t first_row = (map * layout.group_blocks + of_group) * rows;
    LateStage({.rows = rows,
               .tiles = static_cast<int>(last - first),
               .qmax = plan.LargestProb(),
               .max = TileMax(map, first),
               .exps = Exps(map, first),
               .tile_stride = layout.exps_stride,
               .codes = scratch.codes + map * rows * layout.code_stride + tiles * kTile,
               .stride = layout.code_stride,
               .row_max = layout.ScaledByRow() ? Of(scratch.reference, map) : nullptr,
               .exp_sums = plan.unnormalized ? ExpSums(map, first) : nullptr,
               .block_max = scratch.block_max + first_row,
               .sums = scratch.code_sums + first_row});
  }

  void MergeGroup(int map, int64_t tile, int64_t end) const {
    const bool shrinks = MergeBlocks({.rows = rows,
                                      .blocks = static_cast<int>(BlockOf(end - 1) - BlockOf(tile) + 1),
                                      .block_max = scratch.block_max + map * layout.group_blocks * rows,
                                      .code_sums = scratch.code_sums + map * layout.group_blocks * rows,
                                      .reference = Of(scratch.reference, map),
                                      .norm = Of(scratch.norm, map),
                                      .row_scales = scratch.row_scales,
                                      .shrinks = scratch.shrinks});
    if (!shrinks || tile == block.begin_tile) return;  // before the first group out holds anything
    for (int64_t column = 0; column < OutWidth(); column += kTile)
      for (int i = 0; i < rows * kTile; ++i) Out(map, column)[i] *= scratch.shrinks[i / kTile];
  }

  // Late: what a row's sum of a map's codes is multiplied with. A code of qmax is worth 2^reference in the norm, the
  // sink 2^sink; without one this is lambda / norm to the bit.
  float LateFactor(int map, int r, float lambda) const {
    CheckLargest(map, r, Of(scratch.reference, map)[r]);
    const float norm = Of(scratch.norm, map)[r], reference = Of(scratch.reference, map)[r], units = SinkUnits(map);
    const float above = (units - reference) / kExpUnitsPerOctave, qmax = plan.LargestProb();
    const float codes = RowExp2(std::min(-above, 0.0f)), sink = RowExp2(std::min(above, 0.0f));
    const float sum = norm * codes + sink * qmax;
    if (problem.lse.data != nullptr)
      WriteLse(problem, block.first + r, block.head, map,
               (double{std::max(reference, units)} / kExpUnitsPerOctave + std::log2(sum / qmax)) * std::numbers::ln2);
    return norm > 0 ? lambda * codes / sum : 0.0f;
  }

  // Early: the codes were differences of normalised maps already.
  void Finish() const {
    const bool two = !layout.Early() && head.Differential();
    float *factors1 = scratch.out_factors, *factors2 = factors1 + rows;
    for (int r = 0; r < block.count; ++r) {
      factors1[r] = layout.Early() ? 1.0f : LateFactor(0, r, 1.0f);
      if (two) factors2[r] = LateFactor(1, r, scratch.lambda[r]);
      const KeyRange keys = problem.Keys(block.first + r);
      scratch.mean_factors[r] = keys.begin < keys.end ? 1.0f - scratch.lambda[r] : 0.0f;
    }
    const int width = problem.v.width;
    const FloatHeads<float>& result = problem.out;
    for (int slice = 0; slice < head.VSlices(); ++slice) {
      for (int first = 0; first < width; first += kTile) {
        const int64_t column = slice * layout.columns + first;
        const int columns = std::min(kTile, width - first), to = slice * width + first;
        const bool halves = result.halves != nullptr;
        WriteOutput({.rows = block.count,
                     .width = columns,
                     .out1 = Out(0, column),
                     .out2 = two ? Out(1, column) : nullptr,
                     .stride = kTile,
                     .factors1 = factors1,
                     .factors2 = factors2,
                     .mean = plan.v_mean == nullptr ? nullptr : plan.v_mean + head.v[slice] * width + first,
                     .mean_factors = scratch.mean_factors,
                     .to = halves ? scratch.wide : result.Row(block.first, block.head) + to,
                     .to_stride = halves ? kTile : result.token_stride,
                     .store = layout.store});
        for (int r = 0; halves && r < block.count; ++r)
          StoreRow(result, block.first + r, block.head, to, scratch.wide + r * kTile, columns);
      }
    }
    if (layout.store == OutputStore::kPastCaches) FlushOutput();
  }
};

}  // namespace

void RunBlock(const PackedHeads& packed, const ExecutedProducts& products, const ExecutedScratch& scratch,
              int64_t index) {
  Block{packed, products, scratch, index}.Run();
}

}  // namespace tare
