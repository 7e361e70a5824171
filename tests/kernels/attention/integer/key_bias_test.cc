// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/integer/key_bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "hwy/detect_targets.h"
#include "hwy/targets.h"

namespace tare::key_bias_test {
namespace {

// The bits of std::fma in order, on every instruction set that has it; widths that do not fill their last group of 4.
TEST(KeyBias, IsTheSumInOrder) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const int width : {1, 3, 4, 18, 128}) {
    std::vector<int8_t> codes((width + 3) / 4 * 256);
    std::vector<float> mean(width), scales(64), bias(64);
    for (int8_t& code : codes) code = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    for (float& x : mean) x = normal(random);
    for (float& x : scales) x = std::fabs(normal(random));
    for (const int64_t target : {HWY_AVX2, HWY_AVX3, HWY_AVX3_DL}) {
      if ((hwy::SupportedTargets() & target) == 0) continue;
      hwy::SetSupportedTargetsForTest(target);
      KeyBias(codes.data(), width, mean.data(), scales.data(), bias.data());
      hwy::SetSupportedTargetsForTest(0);
      for (int key = 0; key < 64; ++key) {
        float sum = 0;
        for (int i = 0; i < width; ++i)
          sum = std::fma(mean[i], static_cast<float>(codes[i / 4 * 256 + key * 4 + i % 4]), sum);
        ASSERT_EQ(bias[key], sum * scales[key]) << hwy::TargetName(target) << ", width " << width << ", key " << key;
      }
    }
  }
}

}  // namespace
}  // namespace tare::key_bias_test
