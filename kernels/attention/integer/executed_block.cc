// SPDX-License-Identifier: Apache-2.0
// See executed_block.h.
#include "kernels/attention/integer/executed_block.h"

#include <algorithm>
#include <limits>

#include "kernels/attention/fixed_exp.h"
#include "kernels/attention/integer/code_stage.h"
#include "kernels/attention/integer/logit_stage.h"
#include "kernels/attention/integer/packing.h"
#include "kernels/attention/integer/score_stage.h"
#include "kernels/attention/output_stage.h"
#include "kernels/attention/row_exp2.h"

namespace tare {
namespace {

class Block {
 public:
  Block(const ExecutedCall& call, const ExecutedScratch& scratch, int64_t index)
      : layout_(call.layout),
        plan_(call.layout.plan),
        problem_(call.layout.problem),
        packed_(call.packed),
        products_(call.products),
        scratch_(scratch),
        rows_(layout_.rows),
        block_(BlockOfRows(problem_, rows_, layout_.row_blocks, index)),
        head_(problem_.heads[static_cast<size_t>(block_.head)]) {}

  void Run() const {
    if (block_.begin_tile == block_.end_tile) return WriteZeros(problem_, block_);
    for (int map = 0; map < head_.Maps(); ++map) LoadQueries(map);
    LoadLambda(problem_, block_, rows_, scratch_.lambda);
    if (layout_.CodesLogits()) KeepLogits();
    if (layout_.Early())
      Early();
    else
      Late();
    Finish();
  }

 private:
  int OutWidth() const { return head_.VSlices() * layout_.columns; }
  int64_t BlockOf(int64_t tile) const { return tile / layout_.block_tiles; }

  // A map's part of what scratch has per map; of `tile`, where it has that too.
  float* Out(int map, int64_t column) const { return scratch_.out + (map * OutWidth() + column) * rows_; }
  float* Of(float* rows, int map) const { return rows + map * rows_; }
  uint16_t* LogitTable(int map) const { return scratch_.logit_table + map * rows_ * kLogitEntries; }
  int64_t Scored(int map, int64_t tile) const { return (map * layout_.scored + tile % layout_.scored) * rows_; }
  float* TileMax(int map, int64_t tile) const { return scratch_.tile_max + Scored(map, tile); }
  // 1/2048 octaves; -inf without a sink.
  float SinkUnits(int map) const { return problem_.Sink(head_.Q(map)) * (kLog2E * kExpUnitsPerOctave); }
  float* Weights(int map, int64_t tile) const { return scratch_.weights + Scored(map, tile); }
  int32_t* ExpSums(int map, int64_t tile) const { return scratch_.exp_sums + Scored(map, tile); }
  int64_t Kept(int map, int64_t tile) const { return (map * layout_.kept + tile % layout_.kept) * layout_.exps_stride; }
  int16_t* Exps(int map, int64_t tile) const { return scratch_.exps + Kept(map, tile); }
  float* Logits(int map, int64_t tile) const { return scratch_.logits + Kept(map, tile) / 2; }

  void LoadQueries(int map) const {
    const int q = head_.Q(map), d4 = layout_.d4;
    uint8_t* codes = scratch_.q_codes + map * rows_ * d4;
    float* scales = scratch_.q_scales;
    const float* mean = plan_.q_mean == nullptr ? nullptr : plan_.q_mean + q * problem_.q.width;
    PackQueries(problem_.q, q, block_.first, block_.count, plan_.q, mean, codes, scales);
    std::fill(codes + block_.count * d4, codes + rows_ * d4, uint8_t{128});
    if (mean != nullptr) InvertScales(codes, scales, Of(scratch_.q_inv, map));
    const float to_units = problem_.scale * (kLog2E * kExpUnitsPerOctave);
    // Never 0: a masked key's infinite distance times 0 would be NaN.
    float* factors = Of(scratch_.row_factors, map);
    for (int r = 0; r < rows_; ++r)
      factors[r] = r < block_.count ? std::max(scales[r] * to_units, std::numeric_limits<float>::min()) : 1.0f;
  }

  // 1 / q scale of every row, where a row that is the mean alone has codes 0 of scale 1.
  void InvertScales(uint8_t* codes, float* scales, float* inv) const {
    for (int r = 0; r < rows_; ++r) {
      if (r >= block_.count || scales[r] < kMeanOnlyScale) {
        std::fill_n(codes + r * layout_.d4, layout_.d4, uint8_t{128});
        scales[r] = 1.0f;
      }
      inv[r] = 1.0f / scales[r];
    }
  }

  // Calls visit(tile, map, sums) with the product of Q and K for all maps of tiles [tile, end).
  template <class Visit>
  void ForEachProduct(int64_t tile, int64_t end, Visit visit) const {
    for (; tile < end; ++tile) {
      const bool masked = MaskTile(problem_, block_, rows_, tile, scratch_.begin, scratch_.end);
      for (int map = 0; map < head_.Maps(); ++map) visit(tile, map, masked);
    }
  }

  LogitSums Sums(int64_t tile, int map, bool masked) const {
    const int64_t key = layout_.KeyTile(head_.K(map), tile) * kTile;
    products_.scores.Run(scratch_.q_codes + map * rows_ * layout_.d4, packed_.k_codes + key * layout_.d4,
                         scratch_.sums);
    const int64_t bias = layout_.BiasTile(block_.head, map, tile) * kTile;
    return {.rows = rows_,
            .sums = scratch_.sums,
            .offsets = packed_.k_offsets + key,
            .key_scales = packed_.k_scales + key,
            .key_bias = plan_.q_mean == nullptr ? nullptr : packed_.k_bias + bias,
            .row_inv = Of(scratch_.q_inv, map),
            .begin = masked ? scratch_.begin : nullptr,
            .end = masked ? scratch_.end : nullptr};
  }

  // Quantized logits: all of a row's, then its scale and table.
  void KeepLogits() const {
    std::fill_n(scratch_.logit_absmax, 2 * rows_, 0.0f);
    ForEachProduct(block_.begin_tile, block_.end_tile, [&](int64_t tile, int map, bool masked) {
      LogitStage(
          {.sums = Sums(tile, map, masked), .logits = Logits(map, tile), .absmax = Of(scratch_.logit_absmax, map)});
    });
    for (int map = 0; map < head_.Maps(); ++map)
      LogitTables({.rows = rows_,
                   .qmax = Info(plan_.logits).max_code,
                   .absmax = Of(scratch_.logit_absmax, map),
                   .row_factors = Of(scratch_.row_factors, map),
                   .inv = Of(scratch_.logit_inv, map),
                   .steps = Of(scratch_.logit_steps, map),
                   .table = LogitTable(map)});
  }

  void Score(int64_t tile, int map, bool masked, float* max, int32_t* exp_sums) const {
    if (!layout_.CodesLogits())
      return ScoreStage({.logits = Sums(tile, map, masked),
                         .row_factors = Of(scratch_.row_factors, map),
                         .exps = Exps(map, tile),
                         .max = max,
                         .exp_sums = layout_.Early() ? exp_sums : nullptr});
    LookupStage({.rows = rows_,
                 .qmax = Info(plan_.logits).max_code,
                 .logits = Logits(map, tile),
                 .inv = Of(scratch_.logit_inv, map),
                 .steps = Of(scratch_.logit_steps, map),
                 .table = LogitTable(map),
                 .begin = masked ? scratch_.begin : nullptr,
                 .end = masked ? scratch_.end : nullptr,
                 .exps = Exps(map, tile),
                 .max = max,
                 .exp_sums = exp_sums});
  }

  void ScoreTiles(int64_t tile, int64_t end) const {
    ForEachProduct(tile, end,
                   [&](int64_t t, int map, bool masked) { Score(t, map, masked, TileMax(map, t), ExpSums(map, t)); });
  }

  // For the exponentials alone: the first time's maxima have become weights.
  void ScoreAgain(int64_t tile, int64_t end) const {
    ForEachProduct(tile, end, [&](int64_t t, int map, bool masked) {
      Score(t, map, masked, scratch_.spare_max, /*exp_sums=*/nullptr);
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
    ForEachPiece(tile, end, layout_.block_tiles, visit);
  }

  template <class Visit>
  void ForEachGroup(Visit visit) const {
    ForEachPiece(block_.begin_tile, block_.end_tile, layout_.group_blocks * layout_.block_tiles, visit);
  }

  // A group's codes [tile, end) x V, added to out: all its blocks for 64 columns, then for the next, so that these 64
  // columns of out stay in the first cache.
  void TimesV(int map, int64_t tile, int64_t end) const {
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      for (int64_t column = 0; column < layout_.columns; column += kTile) {
        float* out = Out(map, slice * layout_.columns + column);
        ForEachBlock(tile, end, [&](int64_t first, int64_t last) {
          const uint8_t* codes = scratch_.codes + map * rows_ * layout_.code_stride + (first - tile) * kTile;
          BlockTimesV(codes, head_.v[slice], column, first, last, (BlockOf(first) - BlockOf(tile)) * rows_, out);
        });
      }
    }
  }

  // row: where those of the block begin in what scratch has per block of the group.
  void BlockTimesV(const uint8_t* codes, int64_t v, int64_t column, int64_t first, int64_t last, int64_t row,
                   float* out) const {
    const int64_t tiles = layout_.tiles, columns = layout_.columns, block = BlockOf(first);
    products_.values[last - first]->Run(
        codes, packed_.v_codes + ((v * columns + column) * tiles + first * kTile) * kTile, scratch_.sums);
    const OutputTile output{.rows = rows_,
                            .sums = scratch_.sums,
                            .zeros = layout_.Early() ? scratch_.zeros + row : nullptr,
                            .v_sums = layout_.Early() ? ValueSums(v, column, first, last) : nullptr,
                            .v_scales = packed_.v_scales + (v * layout_.blocks + block) * columns + column,
                            .row_scales = scratch_.row_scales + row,
                            .out = out};
    if (first == block_.begin_tile)
      OverwriteOutput(output);
    else
      AddOutput(output);
  }

  // Of 64 columns of V's codes of tiles [first, last), all in one block.
  const int32_t* ValueSums(int64_t v, int64_t column, int64_t first, int64_t last) const {
    const int64_t columns = layout_.columns;
    const int64_t before = v * (layout_.tiles + layout_.blocks) + BlockOf(first) + first;
    const int32_t* sums = packed_.v_sums + before * columns + column;
    for (int64_t i = 0; i < kTile; ++i) scratch_.v_sums[i] = sums[(last - first) * columns + i] - sums[i];
    return scratch_.v_sums;
  }

  void Early() const {
    ScoreTiles(block_.begin_tile, block_.end_tile);
    const int seen = static_cast<int>(block_.end_tile - block_.begin_tile);
    for (int map = 0; map < 2; ++map) {
      float* const max = TileMax(map, block_.begin_tile);
      int32_t* const sums = ExpSums(map, block_.begin_tile);
      int tiles = seen;
      if (!problem_.sinks.empty()) {  // one more tile, of one key; what its weights become is not used
        std::fill_n(max + tiles * rows_, rows_, SinkUnits(map));
        std::fill_n(sums + tiles * rows_, rows_, kExpLargest);
        ++tiles;
      }
      EarlyWeights(rows_, tiles, map == 0 ? nullptr : scratch_.lambda, max, sums, Weights(map, block_.begin_tile));
    }
    ForEachGroup([&](int64_t tile, int64_t end) {
      ForEachBlock(tile, end, [&](int64_t first, int64_t last) {
        if (layout_.kept < layout_.tiles) ScoreAgain(first, last);
        EarlyBlock(first, last, first - tile, BlockOf(first) - BlockOf(tile));
      });
      TimesV(0, tile, end);
    });
  }

  // index: of the block in its group, which `tiles` tiles of the group come before.
  void EarlyBlock(int64_t first, int64_t last, int64_t tiles, int64_t index) const {
    EarlyStage({.rows = rows_,
                .tiles = static_cast<int>(last - first),
                .format = plan_.probs,
                .weights1 = Weights(0, first),
                .weights2 = Weights(1, first),
                .exps1 = Exps(0, first),
                .exps2 = Exps(1, first),
                .tile_stride = layout_.exps_stride,
                .codes = scratch_.codes + tiles * kTile,
                .stride = layout_.code_stride,
                .scales = scratch_.row_scales + index * rows_,
                .zeros = scratch_.zeros + index * rows_});
  }

  void Late() const {
    std::fill_n(scratch_.reference, 2 * rows_, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch_.norm, 2 * rows_, 0.0f);
    ForEachGroup([&](int64_t tile, int64_t end) {
      ForEachBlock(tile, end, [&](int64_t first, int64_t last) {
        ScoreTiles(first, last);
        for (int map = 0; map < head_.Maps(); ++map)
          LateBlock(map, first, last, first - tile, BlockOf(first) - BlockOf(tile));
      });
      for (int map = 0; map < head_.Maps(); ++map) {
        MergeGroup(map, tile, end);
        TimesV(map, tile, end);
      }
    });
  }

  void LateBlock(int map, int64_t first, int64_t last, int64_t tiles, int64_t index) const {
    const int64_t rows = (map * layout_.group_blocks + index) * rows_;
    LateStage({.rows = rows_,
               .tiles = static_cast<int>(last - first),
               .qmax = Info(plan_.probs).max_code,
               .max = TileMax(map, first),
               .exps = Exps(map, first),
               .tile_stride = layout_.exps_stride,
               .codes = scratch_.codes + map * rows_ * layout_.code_stride + tiles * kTile,
               .stride = layout_.code_stride,
               .block_max = scratch_.block_max + rows,
               .sums = scratch_.code_sums + rows});
  }

  void MergeGroup(int map, int64_t tile, int64_t end) const {
    const bool shrinks = MergeBlocks({.rows = rows_,
                                      .blocks = static_cast<int>(BlockOf(end - 1) - BlockOf(tile) + 1),
                                      .block_max = scratch_.block_max + map * layout_.group_blocks * rows_,
                                      .code_sums = scratch_.code_sums + map * layout_.group_blocks * rows_,
                                      .reference = Of(scratch_.reference, map),
                                      .norm = Of(scratch_.norm, map),
                                      .row_scales = scratch_.row_scales,
                                      .shrinks = scratch_.shrinks});
    if (!shrinks || tile == block_.begin_tile) return;  // before the first group out holds anything
    for (int64_t column = 0; column < OutWidth(); column += kTile)
      for (int i = 0; i < rows_ * kTile; ++i) Out(map, column)[i] *= scratch_.shrinks[i / kTile];
  }

  // Late: what a row's sum of a map's codes is multiplied with. A code of qmax is worth 2^reference in the norm, the
  // sink 2^sink; without one this is lambda / norm to the bit.
  float LateFactor(int map, int r, float lambda) const {
    const float norm = Of(scratch_.norm, map)[r];
    if (!(norm > 0)) return 0.0f;
    const float above = (SinkUnits(map) - Of(scratch_.reference, map)[r]) / kExpUnitsPerOctave;
    const float codes = RowExp2(std::min(-above, 0.0f)), sink = RowExp2(std::min(above, 0.0f));
    return lambda * codes / (norm * codes + sink * static_cast<float>(Info(plan_.probs).max_code));
  }

  // Early: the codes were differences of normalised maps already.
  void Finish() const {
    const bool two = !layout_.Early() && head_.Differential();
    float *factors1 = scratch_.out_factors, *factors2 = factors1 + rows_;
    for (int r = 0; r < block_.count; ++r) {
      factors1[r] = layout_.Early() ? 1.0f : LateFactor(0, r, 1.0f);
      if (two) factors2[r] = LateFactor(1, r, scratch_.lambda[r]);
      const KeyRange keys = problem_.mask.Keys(block_.first + r, problem_.q.tokens, problem_.k.tokens);
      scratch_.mean_factors[r] = keys.begin < keys.end ? 1.0f - scratch_.lambda[r] : 0.0f;
    }
    const int width = problem_.v.width;
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      for (int first = 0; first < width; first += kTile) {
        const int64_t column = slice * layout_.columns + first;
        WriteOutput({.rows = block_.count,
                     .width = std::min(kTile, width - first),
                     .out1 = Out(0, column),
                     .out2 = two ? Out(1, column) : nullptr,
                     .stride = kTile,
                     .factors1 = factors1,
                     .factors2 = factors2,
                     .mean = plan_.v_mean == nullptr ? nullptr : plan_.v_mean + head_.v[slice] * width + first,
                     .mean_factors = scratch_.mean_factors,
                     .to = problem_.out.Row(block_.first, block_.head) + slice * width + first,
                     .to_stride = problem_.out.token_stride,
                     .store = layout_.store});
      }
    }
    if (layout_.store == OutputStore::kPastCaches) FlushOutput();
  }

  const ExecutedLayout& layout_;
  const AttentionPlan& plan_;
  const AttentionProblem& problem_;
  const PackedHeads& packed_;
  const ExecutedProducts& products_;
  const ExecutedScratch& scratch_;
  const int rows_;
  const RowBlock block_;
  const OutputHead& head_;
};

}  // namespace

void RunBlock(const ExecutedCall& call, const ExecutedScratch& scratch, int64_t index) {
  Block(call, scratch, index).Run();
}

}  // namespace tare
