// SPDX-License-Identifier: Apache-2.0
// See executed_block.h.
#include "kernels/attention/integer/executed_block.h"

#include <algorithm>
#include <limits>

#include "kernels/attention/fixed_exp.h"
#include "kernels/attention/integer/code_stage.h"
#include "kernels/attention/integer/key_bias.h"
#include "kernels/attention/integer/logit_stage.h"
#include "kernels/attention/integer/packing.h"
#include "kernels/attention/output_stage.h"
#include "kernels/attention/row_exp2.h"
#include "kernels/elementwise/rows.h"

namespace tare {
namespace {

class Unit {
 public:
  Unit(const ExecutedCall& call, const Scratch& scratch, int64_t unit)
      : plan_(call.plan),
        p_(call.problem),
        s_(call.sizes),
        k_(call.packed),
        products_(call.products),
        partials_(call.partials),
        x_(scratch),
        head_index_(static_cast<int>(unit / s_.row_blocks)),
        head_(p_.heads[head_index_]),
        rows_(BlockOfRows(p_, s_.rows, s_.row_blocks, unit)) {}

  void Run() const {
    if (rows_.end_tile <= rows_.begin_tile) return Zeros();
    for (int map = 0; map < head_.Maps(); ++map) LoadQueries(map);
    for (int r = 0; r < s_.rows; ++r)
      x_.lambda[r] = r < rows_.count && head_.Differential() ? p_.lambda.At(rows_.first + r, head_index_) : 0.0f;
    if (plan_.logits != Format::kF32) KeepLogits();
    if (plan_.order == AttentionPlan::Order::kEarly)
      Early();
    else
      Late();
    if (partials_ != nullptr)
      KeepPartials();
    else
      Finish();
  }

 private:
  int OutWidth() const { return head_.VSlices() * s_.columns; }
  float* Out(int map) const { return x_.out + map * s_.rows * OutWidth(); }
  float* Max(int map, int64_t tile) const { return x_.max + (map * s_.scored + tile % s_.scored) * s_.rows; }
  int32_t* PSums(int map, int64_t tile) const { return x_.p_sums + (map * s_.scored + tile % s_.scored) * s_.rows; }
  int16_t* P(int map, int64_t tile) const { return x_.p + (map * s_.kept + tile % s_.kept) * s_.p_stride; }

  void Zeros() const {
    if (partials_ != nullptr) return NoPartials();
    for (int r = 0; r < rows_.count; ++r) std::fill_n(p_.out.Row(rows_.first + r, head_index_), p_.out.width, 0.0f);
  }

  void LoadQueries(int map) const {
    const int q = head_.Q(map);
    uint8_t* codes = x_.q + map * s_.rows * s_.d4;
    float* factors = x_.factors + map * s_.rows;
    const float* mean = plan_.q_mean == nullptr ? nullptr : plan_.q_mean + q * p_.q.width;
    PackQueries(p_.q, q, rows_.first, rows_.count, plan_.q, mean, codes, factors);
    std::fill(codes + rows_.count * s_.d4, codes + s_.rows * s_.d4, uint8_t{128});
    constexpr float kLog2E = 1.44269504f;
    if (mean != nullptr) InvertScales(codes, factors, x_.q_inv + map * s_.rows);
    const float to_units = p_.scale * (kLog2E * kExpUnitsPerOctave);
    // Never 0: a masked key's infinite distance times 0 would be NaN.
    for (int r = 0; r < s_.rows; ++r)
      factors[r] = r < rows_.count ? std::max(factors[r] * to_units, std::numeric_limits<float>::min()) : 1.0f;
  }

  // 1 / q scale of every row, where a row that is the mean alone has codes 0 of scale 1.
  void InvertScales(uint8_t* codes, float* scales, float* inv) const {
    for (int r = 0; r < s_.rows; ++r) {
      if (r >= rows_.count || scales[r] < kMeanOnlyScale) {
        std::fill_n(codes + r * s_.d4, s_.d4, uint8_t{128});
        scales[r] = 1.0f;
      }
      inv[r] = 1.0f / scales[r];
    }
  }

  // Scores of all maps. Again: for p alone, when the first time's sums have become weights.
  enum class Pass { kFirst, kAgain };
  void ScoreTiles(int64_t tile, int64_t end, Pass pass) const {
    for (; tile < end; ++tile) {
      const bool masked = MaskTile(p_, rows_, s_.rows, tile, x_.begin, x_.end);
      for (int map = 0; map < head_.Maps(); ++map) {
        float* max = pass == Pass::kFirst ? Max(map, tile) : x_.block_max;
        int32_t* sum = pass == Pass::kFirst ? PSums(map, tile) : x_.code_sums;
        if (plan_.logits != Format::kF32)
          LookUp(map, tile, masked, max, sum);
        else
          Score(map, tile, masked, max, sum);
      }
    }
  }

  int64_t KeyTile(int map, int64_t tile) const { return head_.K(map) * s_.tiles + tile; }

  void Multiply(int map, int64_t k) const {
    products_.scores.Run(x_.q + map * s_.rows * s_.d4, k_.k_codes + k * kTile * s_.d4, x_.sums);
  }

  LogitSums Sums(int map, int64_t tile, bool masked) const {
    const int64_t k = KeyTile(map, tile);
    Multiply(map, k);
    return {.rows = s_.rows,
            .sums = x_.sums,
            .offsets = k_.k_offsets + k * kTile,
            .key_scales = k_.k_scales + k * kTile,
            .key_bias = plan_.q_mean == nullptr ? nullptr : k_.KeyBias(s_, head_index_, map, tile),
            .row_inv = x_.q_inv + map * s_.rows,
            .begin = masked ? x_.begin : nullptr,
            .end = masked ? x_.end : nullptr};
  }

  void Score(int map, int64_t tile, bool masked, float* max, int32_t* sum) const {
    ScoreStage({.logits = Sums(map, tile, masked),
                .row_factors = x_.factors + map * s_.rows,
                .p = P(map, tile),
                .max = max,
                .sum = sum});
  }

  // Quantized logits: all of a row's, then its scale and table.
  void KeepLogits() const {
    std::fill_n(x_.logit_inv, 2 * s_.rows, 0.0f);
    for (int64_t tile = rows_.begin_tile; tile < rows_.end_tile; ++tile) {
      const bool masked = MaskTile(p_, rows_, s_.rows, tile, x_.begin, x_.end);
      for (int map = 0; map < head_.Maps(); ++map) {
        Logits({.logits = Sums(map, tile, masked),
                .z = reinterpret_cast<float*>(P(map, tile)),
                .absmax = x_.logit_inv + map * s_.rows});
      }
    }
    for (int map = 0; map < head_.Maps(); ++map)
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
  void TimesV(int64_t tile, int64_t end, bool first, float* out) const {
    const int64_t block = tile / s_.block_tiles;
    for (int slice = 0; slice < head_.VSlices(); ++slice) {
      const int64_t v = head_.v[slice];
      const int32_t* sums = k_.v_sums + (v * (s_.tiles + s_.blocks) + block + tile) * s_.columns;
      for (int column = 0; column < s_.columns; column += kTile) {
        for (int i = 0; i < kTile; ++i) x_.v_sums[i] = sums[(end - tile) * s_.columns + column + i] - sums[column + i];
        products_.values[end - tile]->Run(
            x_.codes, k_.v_codes + ((v * s_.columns + column) * s_.tiles + tile * kTile) * kTile, x_.sums);
        const OutputTile output{.rows = s_.rows,
                                .sums = x_.sums,
                                .v_sums = x_.v_sums,
                                .zeros = x_.zeros,
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
                  .format = plan_.probs,
                  .p1 = P(0, tile),
                  .p2 = P(1, tile),
                  .tile_stride = s_.p_stride,
                  .a1 = x_.early,
                  .a2 = a2,
                  .codes = x_.codes,
                  .stride = plan_.block,
                  .scales = x_.row_scales,
                  .zeros = x_.zeros});
      TimesV(tile, end, tile == rows_.begin_tile, Out(0));
    }
  }

  void Late() const {
    std::fill_n(x_.zeros, s_.rows, 0);
    for (int map = 0; map < head_.Maps(); ++map) {
      std::fill_n(x_.reference + map * s_.rows, s_.rows, -std::numeric_limits<float>::infinity());
      std::fill_n(x_.norm + map * s_.rows, s_.rows, 0.0f);
    }
    for (int64_t tile = rows_.begin_tile, end; tile < rows_.end_tile; tile = end) {
      end = BlockEnd(tile);
      ScoreTiles(tile, end, Pass::kFirst);
      const int tiles = static_cast<int>(end - tile);
      for (int map = 0; map < head_.Maps(); ++map) {
        LateFactors(s_.rows, tiles, Info(plan_.probs).max_code, Max(map, tile), x_.block_max, x_.late);
        LateStage({.rows = s_.rows,
                   .tiles = tiles,
                   .p = P(map, tile),
                   .tile_stride = s_.p_stride,
                   .factors = x_.late,
                   .codes = x_.codes,
                   .stride = plan_.block,
                   .sums = x_.code_sums});
        Merge(map);
        TimesV(tile, end, tile == rows_.begin_tile, Out(map));
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
        const float shrink = RowExp2((reference[r] - x_.block_max[r]) * kPerOctave);  // may be 0
        const bool has_output = norm[r] > 0;  // before the first block out holds anything
        norm[r] *= shrink;
        if (has_output)
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

  // Codes stand for exp times their largest: so do norm and out alike.
  void KeepPartials() const {
    const float one = 1.0f / static_cast<float>(Info(plan_.probs).max_code);
    for (int map = 0; map < head_.Maps(); ++map) {
      const MapPartials& to = (*partials_)[map];
      for (int r = 0; r < rows_.count; ++r) {
        const int64_t t = rows_.first + r, i = t * to.o.heads + head_index_;
        to.max[i] = x_.reference[map * s_.rows + r] * (0.69314718f / kExpUnitsPerOctave);
        to.sum[i] = x_.norm[map * s_.rows + r] * one;
        for (int slice = 0; slice < head_.VSlices(); ++slice)
          ScaleInto(Out(map) + r * OutWidth() + slice * s_.columns, one, p_.v.width,
                    to.o.Row(t, head_index_) + slice * p_.v.width);
      }
    }
  }

  void NoPartials() const {
    for (int map = 0; map < head_.Maps(); ++map) {
      const MapPartials& to = (*partials_)[map];
      for (int r = 0; r < rows_.count; ++r) {
        const int64_t t = rows_.first + r, i = t * to.o.heads + head_index_;
        to.max[i] = -std::numeric_limits<float>::infinity();
        to.sum[i] = 0.0f;
        std::fill_n(to.o.Row(t, head_index_), to.o.width, 0.0f);
      }
    }
  }

  const AttentionPlan& plan_;
  const AttentionProblem& p_;
  const Sizes& s_;
  const Packed& k_;
  const Products& products_;
  const AttentionPartials* partials_;
  const Scratch& x_;
  int head_index_;
  const OutputHead& head_;
  RowBlock rows_;
};

}  // namespace

void RunUnit(const ExecutedCall& call, const Scratch& scratch, int64_t unit) { Unit(call, scratch, unit).Run(); }

}  // namespace tare
