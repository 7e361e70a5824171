// SPDX-License-Identifier: Apache-2.0
// See packed_heads.h.
#include "kernels/attention/integer/packed_heads.h"

#include <algorithm>

#include "kernels/attention/integer/key_bias.h"
#include "kernels/attention/integer/packing.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

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

  // Of one tile, for every head and map whose Q had a mean.
  void KeyBiases(int64_t tile) const {
    for (int64_t row = 0; row < std::ssize(p_.heads); ++row) {
      const OutputHead& head = p_.heads[static_cast<size_t>(row)];
      for (int map = 0; map < head.Maps(); ++map) {
        const int64_t at = head.K(map) * s_.tiles + tile;
        KeyBias(x_.k_codes + at * kTile * s_.d4, p_.k.width, plan_.q_mean + head.Q(map) * p_.q.width,
                x_.k_scales + at * kTile, x_.KeyBias(s_, row, map, tile));
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
    ParallelFor(static_cast<size_t>(s_.tiles), [&](size_t tile, int) {
      Keys(static_cast<int64_t>(tile));
      if (plan_.q_mean != nullptr) KeyBiases(static_cast<int64_t>(tile));
    });
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

}  // namespace

void PackHeads(const AttentionPlan& plan, const AttentionProblem& problem, const Sizes& sizes, const Packed& packed) {
  Packer(plan, problem, sizes, packed).Run();
}

}  // namespace tare
