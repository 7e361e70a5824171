// SPDX-License-Identifier: Apache-2.0
// No result here depends on timing.
// In the released build alone: under sanitizers a bench takes minutes to measure the sanitizer.
#include "experiments/bench/roofline.h"

#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "kernels/product/tile_product.h"
#include "quant/base/parallel.h"

namespace tare::bench_roofline_test {
namespace {

TEST(Roofline, TakesTheBetterOfEach) {
  const Roofline best = Better({1, 20, 3, 40}, {10, 2, 30, 4});
  EXPECT_EQ(ToJson(best).dump(), R"({"u8s8_gops":10.0,"f32_gflops":20.0,"bf16_gflops":30.0,"read_gbps":40.0})");
}

TEST(RoofAround, AShareOfARoofThatMovedIsWithheld) {
  EXPECT_NEAR((RoofAround{96, 100}.Moved()), 0.04, 1e-15);
  EXPECT_DOUBLE_EQ((RoofAround{96, 100}.Share(50)), 0.5);
  EXPECT_DOUBLE_EQ((RoofAround{100, 96}.Share(50)), 0.5);
  EXPECT_TRUE(std::isnan(RoofAround{100, 94}.Share(50)));
  EXPECT_TRUE(std::isnan(RoofAround{}.Share(50)));  // no products of the type
}

TEST(Roofline, ReadsAnyNumberOfBytes) {
  for (const size_t bytes : {size_t{1}, size_t{100'000}}) EXPECT_GT(ReadRate(1, bytes), 0);
  SetThreads(0);
}

TEST(Roofline, MeasuresTheProcessorsTypes) {
  const Roofline r = MeasureRoofline(1);
  SetThreads(0);
  EXPECT_GT(r.u8s8_gops, 0);
  EXPECT_GT(r.f32_gflops, 0);
  EXPECT_GT(r.read_gbps, 0);
  EXPECT_EQ(r.bf16_gflops > 0, UkernelServes(ProductTypes::kBf16));
}

// Times decide nothing here: only that there is one.
TEST(MatmulTest, TimesAnExecution) {
  for (const Math math : {Math::kF32, Math::kBf16}) {
    if (!HasProducts(math)) continue;
    EXPECT_GT(MatmulOf(math, 128, 128, 128)(), 0);
  }
}

TEST(MatmulTest, ABaselineIsNotOneDnnsReferencePath) {
  std::string implementation;
  MatmulOf(Math::kF32, 512, 2048, 2048, &implementation);
  EXPECT_FALSE(implementation.empty() || implementation.starts_with("ref"));
}

}  // namespace

}  // namespace tare::bench_roofline_test
