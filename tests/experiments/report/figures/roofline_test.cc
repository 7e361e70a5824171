// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::figures_roofline_test {
namespace {

using ::testing::HasSubstr;

TEST(RooflineTest, TheRoofIsTheLowerOfProductsAndReading) {
  const Json roofline{{"u8s8_gops", 100}, {"f32_gflops", 50}, {"bf16_gflops", 0}, {"read_gbps", 10}};
  const auto linear = [](int rows, double seconds) {
    return Json{{"plan", "weights=int8/channel"},
                {"rows", rows},
                {"out", 1000},
                {"in", 1000},
                {"threads", 1},
                {"seconds", seconds},
                {"bits_per_weight", 8.0},
                {"rel_l2", 0.01}};
  };
  const Json bench{{"schema", "tare.bench/1"},
                   {"bench", "linear"},
                   {"roofline", roofline},
                   {"cases", {linear(1, 2e-4), linear(500, 2e-2)}}};
  const FigureData figure = RooflineOfKernels(MaterialOf({bench})).at(0);
  ASSERT_EQ(figure.table.rows.size(), 2u);
  EXPECT_NEAR(figure.table.rows[0]["intensity"].get<double>(), 2e6 / (1e6 + 8000), 1e-9);
  EXPECT_NEAR(figure.table.rows[0]["speed"].get<double>(), 10, 1e-9);
  EXPECT_NEAR(figure.table.rows[0]["roof"].get<double>(), 10 * 2e6 / (1e6 + 8000), 1e-9);
  EXPECT_NEAR(figure.table.rows[1]["roof"].get<double>(), 100, 1e-9);
  EXPECT_NEAR(figure.table.rows[1]["share"].get<double>(), 0.5, 1e-9);
  EXPECT_THAT(figure.findings.at(0),
              "The kernel nearest to its roof is tare in linear (1 row of 1000 to 1000, weights=int8/channel): it "
              "reaches 50 % of 20 Gop/s.");
}

TEST(RooflineTest, AttentionCountsItsTensorsOnce) {
  const Json bench{{"schema", "tare.bench/1"},
                   {"roofline", {{"read_gbps", 10}}},
                   {"cases",
                    {{{"kernel", "tare"},
                      {"family", "v1"},
                      {"plan", "p"},
                      {"n", 100},
                      {"keys", 100},
                      {"d", 64},
                      {"heads", 2},
                      {"kv_heads", 2},
                      {"threads", 1},
                      {"seconds", 1e-3},
                      {"executed_gops", 40},
                      {"rel_l2", 0.01},
                      {"u8s8_gops", 80},
                      {"f32_gflops", 20},
                      {"bf16_gflops", 0}}}}};
  const FigureData figure = RooflineOfKernels(MaterialOf({bench})).at(0);
  // two Q, two K, and V and output of twice the width: 8 x 100 x 2 x 64 floats
  EXPECT_NEAR(figure.table.rows[0]["intensity"].get<double>(), 40e6 / (4.0 * 8 * 100 * 2 * 64), 1e-9);
}

// What the bench says of a case comes to the page: its name, its sentence, its speed beside oneDNN, and that its roof
// moved.
TEST(RooflineTest, AttentionIsComparedWithOneDnn) {
  Json c{
      {"name", "int8 early"}, {"kernel", "tare"}, {"family", "v1"},     {"plan", "p"},      {"n", 100},
      {"keys", 100},          {"d", 64},          {"heads", 2},         {"kv_heads", 2},    {"threads", 1},
      {"seconds", 1e-3},      {"spread", 0.02},   {"ns_per_pair", 3.4}, {"x_onednn", 7.5},  {"executed_gops", 40},
      {"rel_l2", 0.01},       {"u8s8_gops", 80},  {"f32_gflops", 20},   {"bf16_gflops", 0}, {"roofline_fraction", 0.5}};
  Json moved = c, rival = c;
  moved["roofline_fraction"] = nullptr;
  rival["kernel"] = "onednn-int8", rival["name"] = "oneDNN int8";
  const Json bench{{"schema", "tare.bench/1"},
                   {"roofline", {{"read_gbps", 1000}}},
                   {"findings", {"v1: int8 early is faster."}},
                   {"cases", {c, moved, rival}}};
  const FigureData figure = RooflineOfKernels(MaterialOf({bench})).at(0);
  EXPECT_EQ(figure.findings.at(0), "v1: int8 early is faster.");
  EXPECT_EQ(figure.table.rows[0]["kernel"], "int8 early");
  EXPECT_EQ(figure.table.rows[0]["ns_per_pair"], 3.4);
  EXPECT_EQ(figure.table.rows[0]["spread"], 0.02);
  EXPECT_EQ(figure.table.rows[0]["x_onednn"], 7.5);
  EXPECT_EQ(figure.table.rows[0]["share"], 0.5);
  EXPECT_TRUE(figure.table.rows[1]["share"].is_null());
  ASSERT_EQ(MissingOf(figure).size(), 1u);  // drawn without its roof
  EXPECT_THAT(MissingOf(figure)[0], HasSubstr("the roof of 1 of 3 kernels: it moved while the kernel ran"));
  EXPECT_EQ(figure.table.rows[2]["roof"], 80);
}

TEST(RooflineTest, DecodingIsBoundByReadingItsCache) {
  const Json bench{{"schema", "tare.bench/1"},
                   {"bench", "decode"},
                   {"cases",
                    {{{"kernel", "tare"},
                      {"family", "v1"},
                      {"plan", "cache_k=int8/token"},
                      {"n", 1000},
                      {"d", 64},
                      {"heads", 2},
                      {"batch", 1},
                      {"threads", 1},
                      {"seconds", 1e-4},
                      {"bytes", 512000},
                      {"read_gbps", 10.24},
                      {"rel_l2", 0.01}}}}};
  const FigureData figure = RooflineOfKernels(MaterialOf({bench})).at(0);
  EXPECT_NEAR(figure.table.rows[0]["intensity"].get<double>(), 2.0 * 1000 * 64 * 2 * 4 / 512000, 1e-9);
  EXPECT_NEAR(figure.table.rows[0]["share"].get<double>(), 0.5, 1e-9);
}

TEST(RooflineTest, MissingMeasurementsAreNamed) {
  Json bench{{"schema", "tare.bench/1"},
             {"bench", "linear"},
             {"roofline", {{"u8s8_gops", 0}, {"read_gbps", 10}}},
             {"cases",
              {{{"plan", "p"},
                {"rows", 1},
                {"out", 10},
                {"in", 10},
                {"threads", 1},
                {"seconds", 1e-3},
                {"bits_per_weight", 8},
                {"rel_l2", nullptr}}}}};
  const FigureData figure = RooflineOfKernels(MaterialOf({bench})).at(0);
  EXPECT_TRUE(figure.findings.empty());
  ASSERT_EQ(MissingOf(figure).size(), 1u);
  EXPECT_THAT(MissingOf(figure)[0], HasSubstr("the roof of 1 of 1 kernel: it moved while"));
}

}  // namespace
}  // namespace tare::figures_roofline_test
