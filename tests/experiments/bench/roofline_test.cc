// SPDX-License-Identifier: Apache-2.0
// No timing decides anything here.
#include "experiments/bench/roofline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/product/tile_product.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

TEST(Roofline, TheBetterOfEach) {
  const Roofline best = Better({1, 20, 3, 40}, {10, 2, 30, 4});
  EXPECT_EQ(ToJson(best).dump(), R"({"u8s8_gops":10.0,"f32_gflops":20.0,"bf16_gflops":30.0,"read_gbps":40.0})");
}

TEST(Roofline, ReadsAnyNumberOfBytes) {
  for (const size_t bytes : {size_t{1}, size_t{100'000}}) EXPECT_GT(ReadRate(1, bytes), 0.1);
  SetThreads(0);
}

TEST(Roofline, MeasuresWhatTheProcessorHas) {
  const Roofline r = MeasureRoofline(1);
  SetThreads(0);
  EXPECT_GT(r.u8s8_gops, 0);
  EXPECT_GT(r.f32_gflops, 0);
  EXPECT_GT(r.read_gbps, 0);
  EXPECT_EQ(r.bf16_gflops > 0, UkernelServes(ProductTypes::kBf16));
}

}  // namespace
}  // namespace tare
