// SPDX-License-Identifier: Apache-2.0
// A seeded tile's product of Q and K, for tests of the stages that start with one, and its logits one value at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "kernels/attention/exponentials.h"
#include "kernels/attention/integer/score_stage.h"
#include "quant/base/aligned.h"
#include "tests/support/normal_floats.h"

namespace tare {

struct RandomSums {
  enum class Mask { kNone, kRandom };  // random: empty rows, whole rows and all between
  enum class Mean { kNone, kOfQ };

  RandomSums(int rows, Mask mask, Mean mean, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> scale(0.001f, 0.02f);
    NormalFloats normal;
    for (int i = 0; i < rows * 64; ++i) memory_sums[i] = static_cast<int32_t>(random() % 200000) - 100000;
    for (int key = 0; key < 64; ++key) {  // by column
      offsets[key] = static_cast<int32_t>(random() % 20000) - 10000;
      key_scales[key] = key % 17 == 3 ? 0.0f : scale(random);  // a key of zeros among them
      key_bias[key] = 30 * normal(random);
    }
    for (int r = 0; r < 64; ++r) {
      row_inv[r] = 10 * scale(random);
      row_factors[r] = r % 5 == 0 ? 1e-30f : 300 * scale(random);  // some rows' logits are all but equal
      begin[r] = r % 3 == 0 ? 0 : static_cast<int32_t>(random() % 65);
      end[r] = r % 4 == 0 ? 64 : begin[r] + static_cast<int32_t>(random() % static_cast<unsigned>(65 - begin[r]));
    }
    sums = {.rows = rows,
            .sums = memory_sums.data(),
            .offsets = offsets.data(),
            .key_scales = key_scales.data(),
            .key_bias = mean == Mean::kOfQ ? key_bias.data() : nullptr,
            .row_inv = row_inv.data(),
            .begin = mask == Mask::kRandom ? begin.data() : nullptr,
            .end = mask == Mask::kRandom ? end.data() : nullptr};
  }

  bool Sees(int row, int key) const { return sums.begin == nullptr || (key >= begin[row] && key < end[row]); }
  float Logit(int row, int key) const {
    const int column = ColumnOfKey(key);
    const float z = static_cast<float>(memory_sums[row * 64 + column] + offsets[column]) * key_scales[column];
    return sums.key_bias == nullptr ? z : std::fma(key_bias[column], row_inv[row], z);
  }

  AlignedBuffer<int32_t> memory_sums{64 * 64}, offsets{64}, begin{64}, end{64};
  AlignedBuffer<float> key_scales{64}, key_bias{64}, row_inv{64}, row_factors{64};
  LogitSums sums;
};

}  // namespace tare
