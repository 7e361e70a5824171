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
  Packer(const ExecutedLayout& layout, const PackedHeads& packed)
      : layout_(layout), plan_(layout.plan), problem_(layout.problem), packed_(packed) {}

  void Run() const {
    ParallelFor(static_cast<size_t>(layout_.tiles), [&](size_t tile, int) {
      Keys(static_cast<int64_t>(tile));
      if (plan_.q_mean != nullptr) KeyBiases(static_cast<int64_t>(tile));
    });
    const size_t blocks = static_cast<size_t>(problem_.v.heads * layout_.blocks);
    if (plan_.v_scale == AttentionPlan::ValueScale::kSequence) {
      ParallelFor(blocks, [&](size_t index, int) { ValueMagnitudes(static_cast<int64_t>(index)); });
      ShareMagnitudes();
      ParallelFor(blocks, [&](size_t index, int) { Values(static_cast<int64_t>(index)); });
    } else {
      ParallelFor(blocks, [&](size_t index, int) {
        ValueMagnitudes(static_cast<int64_t>(index));
        Values(static_cast<int64_t>(index));
      });
    }
  }

 private:
  static const float* Mean(const float* means, int64_t head, int width) {
    return means == nullptr ? nullptr : means + head * width;
  }

  // A tile of all heads, four tokens at a time, as memory has them.
  void Keys(int64_t tile) const {
    const HeadsView<const float>& k = problem_.k;
    for (int64_t token = tile * kTile; token < (tile + 1) * kTile; token += kRowsAtOnce) {
      for (int head = 0; head < k.heads; ++head) {
        const int64_t key = layout_.KeyTile(head, tile) * kTile;
        PackFourKeys(k, head, token, plan_.k, Mean(plan_.k_mean, head, k.width), packed_.k_codes + key * layout_.d4,
                     packed_.k_offsets + key, packed_.k_scales + key);
      }
    }
  }

  // Of one tile, for every head and map.
  void KeyBiases(int64_t tile) const {
    for (int64_t row = 0; row < std::ssize(problem_.heads); ++row) {
      const OutputHead& head = problem_.heads[static_cast<size_t>(row)];
      for (int map = 0; map < head.Maps(); ++map) {
        const int64_t key = layout_.KeyTile(head.K(map), tile) * kTile;
        KeyBias(packed_.k_codes + key * layout_.d4, problem_.k.width, Mean(plan_.q_mean, head.Q(map), problem_.q.width),
                packed_.k_scales + key, packed_.k_bias + layout_.BiasTile(row, map, tile) * kTile);
      }
    }
  }

  // Of block `index` of all heads, [v heads][blocks].
  void ValueMagnitudes(int64_t index) const {
    const int64_t head = index / layout_.blocks, first = index % layout_.blocks * plan_.block;
    ValueAbsMax(problem_.v, static_cast<int>(head), first, std::min<int64_t>(plan_.block, problem_.v.tokens - first),
                Mean(plan_.v_mean, head, problem_.v.width), packed_.v_absmax + index * layout_.columns);
  }

  // One magnitude for all blocks.
  void ShareMagnitudes() const {
    const int64_t columns = layout_.columns, all = layout_.blocks * columns;
    for (int head = 0; head < problem_.v.heads; ++head) {
      float* absmax = packed_.v_absmax + head * all;
      for (int64_t i = columns; i < all; ++i) absmax[i % columns] = std::max(absmax[i % columns], absmax[i]);
      for (int64_t i = columns; i < all; ++i) absmax[i] = absmax[i % columns];
    }
  }

  void Values(int64_t index) const {
    const int64_t head = index / layout_.blocks, block = index % layout_.blocks;
    const int64_t tiles = layout_.tiles, block_tiles = layout_.block_tiles, columns = layout_.columns;
    const float* absmax = packed_.v_absmax + index * columns;
    int32_t* sums = packed_.v_sums + (head * (tiles + layout_.blocks) + block * (block_tiles + 1)) * columns;
    std::fill_n(sums, columns, 0);
    for (int64_t tile = block * block_tiles; tile < std::min(tiles, (block + 1) * block_tiles);
         ++tile, sums += columns) {
      std::copy_n(sums, columns, sums + columns);
      PackValueTile(problem_.v, static_cast<int>(head), tile, plan_.v, Mean(plan_.v_mean, head, problem_.v.width),
                    absmax, packed_.v_codes + (head * columns * tiles + tile * kTile) * kTile, tiles * kTile * kTile,
                    sums + columns);
    }
    float* scales = packed_.v_scales + index * columns;
    for (int i = 0; i < columns; ++i) scales[i] = ScaleFor(absmax[i], plan_.v).scale;
  }

  const ExecutedLayout& layout_;
  const AttentionPlan& plan_;
  const AttentionProblem& problem_;
  const PackedHeads& packed_;
};

}  // namespace

void PackHeads(const ExecutedLayout& layout, const PackedHeads& packed) { Packer(layout, packed).Run(); }

}  // namespace tare
