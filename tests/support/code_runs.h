// SPDX-License-Identifier: Apache-2.0
// The stages from exponentials to codes, run on a seeded block, and what is wrong with their results against the
// formulas of code_stage.h, one value at a time: "" or the first that differs.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "kernels/attention/exponentials.h"
#include "kernels/attention/integer/code_stage.h"
#include "kernels/attention/row_block.h"
#include "quant/base/aligned.h"
#include "quant/format/round.h"
#include "tests/support/wrong.h"

namespace tare {

// Exponentials of a block, and maxima of its tiles: rows without a key, tiles without one, tiles 100 octaves apart.
struct RandomBlock {
  static constexpr int kRows = 32, kTiles = 3, kTileStride = kRows * 64 + 64, kStride = 256;

  explicit RandomBlock(unsigned seed) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    std::mt19937 random(seed);
    for (size_t i = 0; i < exps.size(); ++i) exps[i] = static_cast<int16_t>(random() % 32768 >> random() % 15);
    for (int t = 0; t < kTiles; ++t) {
      for (int r = 0; r < kRows; ++r) {
        const bool none = r == 5 || (r % 4 == 1 && t == 1);
        max[t * kRows + r] = none ? kNone : static_cast<float>(random() % (r % 7 == 0 ? 200000 : 4000)) - 1000;
        exp_sums[t * kRows + r] = none ? 0 : static_cast<int32_t>(32767 + random() % 1000000);
      }
    }
  }
  int Exp(int r, int key) const { return exps[key / 64 * kTileStride + r * 64 + ExpOfKey(key % 64)]; }
  float Largest(int r) const { return std::max({max[r], max[kRows + r], max[2 * kRows + r]}); }
  float Below(int t, int r) const { return RowExp2((max[t * kRows + r] - Largest(r)) * (1.0f / kExpUnitsPerOctave)); }

  AlignedBuffer<int16_t> exps{kTiles * kTileStride};
  AlignedBuffer<float> max{kTiles * kRows};
  AlignedBuffer<int32_t> exp_sums{kTiles * kRows};
};

struct LateRun : RandomBlock {
  LateRun(unsigned seed, int largest_code) : RandomBlock(seed), qmax(static_cast<float>(largest_code)) {}

  void Run() {
    LateStage({.rows = kRows,
               .tiles = kTiles,
               .qmax = qmax,
               .max = max.data(),
               .exps = exps.data(),
               .tile_stride = kTileStride,
               .codes = codes.data(),
               .stride = kStride,
               .row_max = row_max.data(),
               .exp_sums = unnormalized ? exp_sums.data() : nullptr,
               .block_max = block_max.data(),
               .sums = sums.data()});
  }
  std::string Wrong() const {
    std::string wrong;
    for (int r = 0; r < kRows && wrong.empty(); ++r) {
      const float largest = row_max.size() == 0 ? Largest(r) : row_max[r];
      if (block_max[r] != largest) return Formatted("maximum of row {}: got {}", r, block_max[r]);
      int sum = 0;
      float before_rounding = 0;
      for (int i = 0; i < kTiles * 64; ++i) {
        const float factor =
            RowExp2((max[i / 64 * kRows + r] - largest) * (1.0f / kExpUnitsPerOctave)) * (qmax / 32767);
        const double want = std::nearbyint(double{factor} * Exp(r, i));
        if (wrong.empty()) wrong = WrongValue(Formatted("row {}, code", r), i, codes[r * kStride + i], want, 0);
        sum += codes[r * kStride + i];
        if (i % 64 == 0) before_rounding += factor * static_cast<float>(exp_sums[i / 64 * kRows + r]);
      }
      if (wrong.empty()) wrong = WrongValue("sum of row", r, sums[r], unnormalized ? before_rounding : sum, 0);
    }
    return wrong;
  }

  float qmax;
  bool unnormalized = false;
  AlignedBuffer<float> row_max;  // empty: the blocks' own
  AlignedBuffer<uint8_t> codes = Unwritten<uint8_t>(kRows * kStride);
  AlignedBuffer<float> block_max = Unwritten<float>(kRows);
  AlignedBuffer<float> sums = Unwritten<float>(kRows);
};

struct EarlyRun {
  static constexpr int kRows = RandomBlock::kRows, kTiles = RandomBlock::kTiles, kStride = RandomBlock::kStride;

  explicit EarlyRun(const Format& of_codes) : format(of_codes) {
    std::mt19937 random(5);
    for (int i = 0; i < kTiles * kRows; ++i) {
      w1[i] = i % kRows == 9 ? 0.0f : static_cast<float>(random() % 1000) * 1e-9f;
      w2[i] =
          i % kRows == 9 ? 0.0f : static_cast<float>(static_cast<int>(random() % 1500) - 500) * 1e-9f;  // lambda < 0
    }
  }
  void Run() {
    EarlyStage({.rows = kRows,
                .tiles = kTiles,
                .format = format,
                .weights1 = w1.data(),
                .weights2 = w2.data(),
                .exps1 = first.exps.data(),
                .exps2 = second.exps.data(),
                .tile_stride = RandomBlock::kTileStride,
                .codes = codes.data(),
                .stride = kStride,
                .scales = scales.data(),
                .zeros = zeros.data()});
  }
  std::string Wrong() const {
    std::string wrong;
    for (int r = 0; r < kRows && wrong.empty(); ++r) wrong = WrongRow(r);
    return wrong;
  }

  Format format;
  RandomBlock first{3}, second{4};
  AlignedBuffer<float> w1{kTiles * kRows}, w2{kTiles * kRows}, scales{kRows};
  AlignedBuffer<uint8_t> codes = Unwritten<uint8_t>(kRows * kStride);
  AlignedBuffer<int32_t> zeros = Unwritten<int32_t>(kRows);

 private:
  std::string WrongRow(int r) const {
    float bound = 0;
    for (int t = r; t < kTiles * kRows; t += kRows) bound = std::max({bound, w2[t], w1[t] - std::min(w2[t], 0.0f)});
    const float per_weight = bound > 0 ? 32767 / bound : 0.0f;
    int difference[kTiles * 64], largest = 0, smallest = 0;
    for (int i = 0; i < kTiles * 64; ++i) {
      const auto part = [&](const RandomBlock& map, const AlignedBuffer<float>& w) {
        const int a = static_cast<int>(std::nearbyint(w[i / 64 * kRows + r] * per_weight));
        return (map.Exp(r, i) * a + 16384) >> 15;
      };
      difference[i] = part(first, w1) - part(second, w2);
      largest = std::max(largest, difference[i]);
      smallest = std::min(smallest, difference[i]);
    }
    const bool has_zero = Info(format).min_code == 0;
    const float most = static_cast<float>(Info(format).max_code) - (has_zero ? kZeroPointMargin : 0.0f);
    const float range = static_cast<float>(has_zero ? largest - smallest : std::max(largest, -smallest));
    const float inv = range > 0 ? most / range : 0.0f;
    const int zero = has_zero ? -static_cast<int>(std::nearbyint(double{inv} * smallest)) : 128;
    std::string wrong = WrongValue("zero of row", r, zeros[r], zero, 0);
    if (wrong.empty()) wrong = WrongValue("scale of row", r, scales[r], bound * (32768.0f / 32767) * (range / most), 0);
    for (int i = 0; i < kTiles * 64 && wrong.empty(); ++i)
      wrong = WrongValue(Formatted("row {}, code", r), i, codes[r * kStride + i],
                         zero + std::nearbyint(double{inv} * difference[i]), 0);
    return wrong;
  }
};

}  // namespace tare
