// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/roofline.h"

#include <gtest/gtest.h>

#include <numeric>

#include "quant/base/aligned.h"

namespace tare::read_loop_test {
namespace {

TEST(ReadLoop, EveryLoopReadsEveryValueOnce) {
  AlignedBuffer<uint64_t> memory(3 * kReadStep);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = i * i + 1;
  const uint64_t sum = std::accumulate(memory.data(), memory.data() + memory.size(), uint64_t{0});
  for (const ReadLoop& loop : kReadLoops)
    EXPECT_EQ(SumRead(memory.data(), memory.size(), loop), sum) << loop.streams << " " << loop.ahead;
}

}  // namespace
}  // namespace tare::read_loop_test
