// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/float/fused_block.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention/exponentials.h"
#include "kernels/attention/float/float_stage.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"

namespace tare {
namespace {

void Bf16Row(const float* x, int width, void* out) {
  auto* to = static_cast<uint16_t*>(out);
  ToBf16(x, static_cast<size_t>(width), to);
  if (width % 2 != 0) to[width] = 0;
}

struct FusedBlock : FusedRows {
  const OutputHead& head = problem.heads[static_cast<size_t>(block.head)];
  const int rows = static_cast<int>(RoundUp(block.count, kRowStep));  // that are computed
  const FusedKernel::Products& products = *kernel.products[static_cast<size_t>(rows / kRowStep - 1)];

  void Run() const {
    if (block.begin_tile == block.end_tile) return WriteZeros(problem, block);
    LoadLambda(problem, block, rows, scratch.lambda);
    for (int map = 0; map < head.Maps(); ++map) MakeMap(map);
    if (problem.integral != Integral::kNone) Integrate();
    const bool shown = looks.difference && head.Differential();
    if (shown) {
      ForTiles([&](int64_t tile) { Subtract(tile); });
      looks.difference(Shown(0));
    }
    ForTiles([&](int64_t tile) {
      if (!shown) Subtract(tile);
      TimesV(tile);
    });
    for (int r = 0; r < block.count; ++r)
      StoreRow(problem.out, block.first + r, block.head, 0, scratch.out + r * kernel.out_width, kernel.out_width);
  }

  void ShowLogits() const {
    for (int map = 0; map < head.Maps(); ++map) {
      LoadQueries(map);
      AllLogits(map);
    }
  }

  void Sum() const {
    MakeMap(0);
    ForTiles([&](int64_t tile) {
      for (int i = 0; i < block.count * kTile; ++i)
        column_sums[tile * kTile + i % kTile] += Tile(0, tile)[i / kTile * kernel.stride + i % kTile];
    });
  }

  template <typename Visit>
  void ForTiles(Visit visit) const {
    for (int64_t tile = block.begin_tile; tile < block.end_tile; ++tile) visit(tile);
  }

  void MakeMap(int map) const {
    LoadQueries(map);
    if (problem.weights == RowWeights::kThreshold) {
      Threshold(map);
    } else {
      Exponentials(map);
      problem.weights == RowWeights::kSoftpick ? Pick(map) : Weigh(map);
    }
    if (looks.probs || problem.integral != Integral::kNone) ShowProbs(map);
  }

  // A tile's values [rows][64], kernel.stride apart.
  float* Tile(int map, int64_t tile) const { return scratch.values + map * kernel.map_values + tile * kernel.step; }

  // Where a tile's entries of max and exp_sums begin.
  int64_t At(int map, int64_t tile) const { return (map * kernel.tiles + tile) * rows; }

  ShownRows Shown(int map) const { return {map, Tile(map, 0), kernel.stride, nullptr}; }

  void LoadQueries(int map) const {
    const int width = problem.q.width;
    const HeadsView<const float> q = Widened(problem.q, head.Q(map), block.first, block.count, scratch.wide);
    for (int r = 0; r < rows; ++r)
      kernel.operands.Row(q.Row(block.first + std::min(r, block.count - 1), head.Q(map)), problem.scale, width,
                          scratch.q + r * kernel.operands.RowBytes(width));
  }

  void TileLogits(int map, int64_t tile) const {
    const std::byte* keys = packed.k[map] + tile * kernel.operands.KeyBytes(problem.k.width);
    products.logits.Run(scratch.q, keys, Tile(map, tile));
    if (problem.softcap == 0) return;
    for (int r = 0; r < rows; ++r) SoftCap(Tile(map, tile) + r * kernel.stride, problem.softcap, kTile);
  }

  void AllLogits(int map) const {
    ForTiles([&](int64_t tile) { TileLogits(map, tile); });
    looks.logits(Shown(map));
  }

  // use(tile, masked) with a tile's logits, and which of them are visible.
  template <typename Use>
  void ForLogits(int map, Use use) const {
    if (looks.logits) AllLogits(map);
    ForTiles([&](int64_t tile) {
      if (!looks.logits) TileLogits(map, tile);
      use(tile, MaskTile(problem, block, rows, tile, scratch.begin, scratch.end));
    });
  }

  void Exponentials(int map) const {
    ForLogits(map, [&](int64_t tile, bool masked) {
      FloatScores({.rows = rows,
                   .values = Tile(map, tile),
                   .stride = kernel.stride,
                   .begin = masked ? scratch.begin : nullptr,
                   .end = masked ? scratch.end : nullptr,
                   .max = scratch.max + At(map, tile),
                   .exp_sums = scratch.exp_sums + At(map, tile)});
    });
  }

  // Probabilities in place of logits; their weights are 1.
  void Threshold(int map) const {
    ForLogits(map, [&](int64_t tile, bool masked) {
      for (int r = 0; r < block.count; ++r) {
        const KeyRange keys = problem.Keys(block.first + r);
        const double seen = static_cast<double>(std::max<int64_t>(1, keys.end - keys.begin));
        const auto tau = static_cast<float>(problem.beta * std::sqrt(2 * std::log(seen) / problem.q.width));
        float* const values = Tile(map, tile) + r * kernel.stride;
        for (int i = 0; i < kTile; ++i) {
          const bool visible = !masked || (scratch.begin[r] <= i && i < scratch.end[r]);
          const float above = visible ? std::max(values[i] - tau, 0.0f) : 0.0f;
          values[i] = above * above;
        }
      }
      std::fill_n(scratch.max + At(map, tile), rows, 1.0f);
    });
  }

  // A sink is one more tile, of one key; map 2 may overwrite what map 1's becomes.
  void Weigh(int map) const {
    const int64_t first = At(map, block.begin_tile), end = At(map, block.end_tile);
    const bool sink = !problem.sinks.empty();
    if (sink) {
      std::fill_n(scratch.max + end, rows, problem.Sink(head.Q(map)) * kLog2E);
      std::fill_n(scratch.exp_sums + end, rows, 1.0f);
    }
    const int tiles = static_cast<int>((end - first) / rows + (sink ? 1 : 0));
    float *const max = scratch.max + first, *const sums = scratch.exp_sums + first;
    WriteTilesLse(problem, block, map, rows, tiles, max, sums, /*unit=*/1, /*one=*/1);
    FloatWeights(rows, tiles, max, sums, max);
  }

  // Softpick: writes max(e - exp(-m), 0) in place of exponentials, relative to the row's m as all its tiles then are.
  // A tile's sum of magnitudes is f32, of 64 values, the row's double.
  void Pick(int map) const {
    std::array<float, kLargestRows> most{};  // m in octaves
    std::array<double, kLargestRows> sums{};
    float* const max = scratch.max;
    ForTiles([&](int64_t tile) {
      for (int r = 0; r < rows; ++r) most[r] = std::max(most[r], max[At(map, tile) + r]);
    });
    ForTiles([&](int64_t tile) {
      const bool masked = MaskTile(problem, block, rows, tile, scratch.begin, scratch.end);
      for (int r = 0; r < rows; ++r) {
        const float to_row = std::exp2(max[At(map, tile) + r] - most[r]), one = std::exp2(-most[r]);
        float *const values = Tile(map, tile) + r * kernel.stride, sum = 0;
        for (int i = masked ? scratch.begin[r] : 0, end = masked ? scratch.end[r] : kTile; i < end; ++i) {
          const float above = values[i] * to_row - one;
          sum += std::abs(above);
          values[i] = std::max(above, 0.0f);
        }
        sums[r] += sum;
      }
    });
    ForTiles([&](int64_t tile) {
      for (int r = 0; r < rows; ++r) max[At(map, tile) + r] = static_cast<float>(1 / (sums[r] + kSoftpickEpsilon));
    });
  }

  // Writes probabilities in place of their exponentials; their weights become 1.
  void ShowProbs(int map) const {
    ForTiles([&](int64_t tile) {
      float *const values = Tile(map, tile), *const weights = scratch.max + At(map, tile);
      FloatDifference(
          {.rows = rows, .stride = kernel.stride, .exps1 = values, .weights1 = weights, .difference = values});
      std::fill_n(weights, rows, 1.0f);
    });
    ShownRows shown = Shown(map);
    if (!problem.sinks.empty()) shown.sink_shares = scratch.max + At(map, block.end_tile);
    if (looks.probs) looks.probs(shown);
  }

  // DINT: adds P1's rows to the sums, unless these are of all rows, and writes P2 - G in place of P2.
  void Integrate() const {
    const bool all = problem.integral == Integral::kAll;
    for (int r = 0; r < block.count; ++r) {
      const auto queries = static_cast<double>(all ? problem.q.tokens : block.first + r + 1);
      ForTiles([&](int64_t tile) {
        const int64_t row = r * kernel.stride;
        for (int i = 0; i < kTile; ++i) {
          double& sum = column_sums[tile * kTile + i];
          if (!all) sum += Tile(0, tile)[row + i];
          Tile(1, tile)[row + i] -= static_cast<float>(sum / queries);
        }
      });
    }
  }

  // Writes the difference in place of map 1's exponentials.
  void Subtract(int64_t tile) const {
    FloatDifference({.rows = rows,
                     .stride = kernel.stride,
                     .exps1 = Tile(0, tile),
                     .exps2 = head.Differential() ? Tile(1, tile) : nullptr,
                     .weights1 = scratch.max + At(0, tile),
                     .weights2 = scratch.max + At(1, tile),
                     .lambda = scratch.lambda,
                     .difference = Tile(0, tile)});
  }

  // Tiles of bf16 are not looked at: their rows lie together.
  void TimesV(int64_t tile) const {
    const void* operand = Tile(0, tile);
    if (kernel.operands.Converts()) {
      ToBf16(Tile(0, tile), static_cast<size_t>(rows) * kTile, reinterpret_cast<uint16_t*>(scratch.coded));
      operand = scratch.coded;
    }
    const TileProduct& product = tile == block.begin_tile ? products.first : products.more;
    const int64_t bytes = kernel.operands.ValueBytes(problem.v.width);
    for (int slice = 0; slice < head.VSlices(); ++slice)
      product.Run(operand, packed.v[slice] + tile * bytes, scratch.out + slice * problem.v.width);
  }
};

}  // namespace

FloatOperands::FloatOperands(ProductTypes types) : types_(types) {
  if (types != ProductTypes::kF32 && types != ProductTypes::kBf16)
    Fail("fused attention: got products of integers, expected f32 or bf16");
}

void FloatOperands::Row(const float* x, float scale, int width, std::byte* out) const {
  if (!Converts()) return ScaleInto(x, scale, static_cast<size_t>(width), reinterpret_cast<float*>(out));
  alignas(64) float scaled[kLargestWidth];
  ScaleInto(x, scale, static_cast<size_t>(width), scaled);
  Bf16Row(scaled, width, out);
}

void FloatOperands::Keys(const TileRows& keys, int width, std::byte* out) const {
  auto* to = reinterpret_cast<float*>(out);
  alignas(64) float pairs[4][kLargestWidth / 2];  // of bf16, moved as the 32 bits that they are
  for (int key = 0; key < kTile; key += 4) {
    std::array<const float*, 4> four;
    std::copy_n(keys.data() + key, 4, four.data());
    if (!Converts()) {
      TransposeFourKeys(four.data(), width, to + key);
      continue;
    }
    for (int i = 0; i < 4; ++i) {
      if (four[i] == nullptr) continue;
      Bf16Row(four[i], width, pairs[i]);
      four[i] = pairs[i];
    }
    TransposeFourKeys(four.data(), Depth(width) / 2, to + key);
  }
}

void FloatOperands::Values(const TileRows& values, int width, std::byte* out) const {
  static constexpr float kZeros[kLargestWidth] = {};
  const auto bf16 = [&](int i) { return values[i] == nullptr ? kZeros : values[i]; };
  for (int i = 0; i < kTile; ++i) {
    std::byte* to = out + i * width * Bytes();
    if (!Converts() && values[i] == nullptr)
      std::fill_n(reinterpret_cast<float*>(to), width, 0.0f);
    else if (!Converts())
      std::copy_n(values[i], width, reinterpret_cast<float*>(to));
    else if (i % 2 == 0)
      ToBf16Pairs(bf16(i), bf16(i + 1), static_cast<size_t>(width), reinterpret_cast<uint16_t*>(to));
  }
}

// Rows of keys lie 16 values apart, off the same cache sets. Tiles take V1 of 2,048 tokens 5 % less time than rows.
FusedKernel::FusedKernel(const AttentionProblem& problem, ProductTypes types, int64_t queries, int64_t keys,
                         FusedValues order)
    : operands(types),
      q_width(problem.q.width),
      v_width(problem.v.width),
      out_width(problem.out.width),
      wide_width(problem.HasHalves() ? std::max(q_width, v_width) : 0),
      tiles(CeilDiv(keys, kTile)),
      rows(RowsFor(queries)) {
  CheckProblem(problem);
  for (const OutputHead& head : problem.heads) maps = std::max(maps, head.Maps());
  // Fewer rows read K and V more often: of 32,768 keys 16 rows take 1.4 times as long as 64.
  while (rows > kLargestRows / maps && maps * tiles * kTile * rows * int64_t{sizeof(float)} > kMostKept)
    rows -= kRowStep;
  const int64_t row = tiles * kTile + 16;
  map_values = rows * row;
  stride = order == FusedValues::kRows ? row : kTile;
  step = order == FusedValues::kRows ? kTile : kTile * rows;
  const int depth = operands.Depth(q_width);
  for (int m = kRowStep; m <= rows; m += kRowStep) {
    const auto product = [&](int n, int k, int64_t lda, int64_t ldc, ProductStore store) {
      return TileProduct({types, m, n, k, lda, n, ldc, store});
    };
    products[static_cast<size_t>(m / kRowStep - 1)] = {
        product(kTile, depth, depth, stride, ProductStore::kOverwrite),
        product(v_width, kTile, stride, out_width, ProductStore::kOverwrite),
        product(v_width, kTile, stride, out_width, ProductStore::kAdd)};
  }
}

FusedScratch FusedKernel::TakeScratch(Arena& arena) const {
  const int64_t kept = (maps * tiles + 1) * rows;
  return {.q = arena.Take<std::byte>(rows * operands.RowBytes(q_width)),
          .begin = arena.Take<int32_t>(rows),
          .end = arena.Take<int32_t>(rows),
          .values = arena.Take<float>(maps * map_values),
          .max = arena.Take<float>(kept),
          .exp_sums = arena.Take<float>(kept),
          .lambda = arena.Take<float>(rows),
          .coded = arena.Take<std::byte>(operands.Converts() ? rows * operands.RowBytes(kTile) : 0),
          .out = arena.Take<float>(rows * out_width),
          .wide = arena.Take<float>(kTile * wide_width)};
}

void RunFused(const FusedRows& rows) { FusedBlock{rows}.Run(); }
void ShowFusedLogits(const FusedRows& rows) { FusedBlock{rows}.ShowLogits(); }
void SumFused(const FusedRows& rows) { FusedBlock{rows}.Sum(); }

}  // namespace tare
