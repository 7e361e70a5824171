// SPDX-License-Identifier: Apache-2.0
// Versions of a model by the cuts of their calibration text.
#include "experiments/studies/sweep/cut_spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/sweep_cells.h"

namespace tare::cut_spread_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CutSpread, OfThreeCuts) {
  const std::vector<SweepCell> cells{Perplexity("q-0", "f32", 20), Perplexity("q-1", "f32", 23),
                                     Perplexity("q-2", "f32", 17), Perplexity("other", "f32", 90)};
  const std::vector<CutSpread> spreads = SpreadOverCuts(cells, CompareCells(cells), {{"q-0", "q-1", "q-2"}});
  ASSERT_EQ(spreads.size(), 1u);  // nll is in no table
  EXPECT_THAT(spreads[0].values, ElementsAre(20, 23, 17));
  EXPECT_NEAR(spreads[0].value.deviation, 3, 1e-12);
  EXPECT_NEAR(spreads[0].value.interval.high, 20 + 4.302653 * 3 / std::sqrt(3.0), 1e-5);
  EXPECT_FALSE(spreads[0].change);
  EXPECT_THAT(CutSpreadTable(spreads), HasSubstr("q-0 .. q-2"));
  EXPECT_EQ(TableJson(CutSpreads(spreads))[0]["cuts"], 3);
}

TEST(CutSpread, ChangesUnderAPlan) {
  std::vector<SweepCell> cells;
  for (const auto& [model, stored, rounded] : {std::tuple{"a", 20.0, 21.0}, {"b", 22.0, 25.0}}) {
    cells.push_back(Perplexity(model, "f32", stored));
    cells.push_back(Perplexity(model, "k=int4/token", rounded));
  }
  const std::vector<CutSpread> spreads = SpreadOverCuts(cells, CompareCells(cells), {{"a", "b"}});
  ASSERT_EQ(spreads.size(), 2u);
  EXPECT_EQ(spreads[1].plan, "k=int4/token");
  EXPECT_THAT(spreads[1].changes, ElementsAre(1, 3));
  ASSERT_TRUE(spreads[1].change);
  EXPECT_NEAR(spreads[1].change->mean, 2, 1e-12);
}

// A model lacks the task, or there is no group: nothing to say.
TEST(CutSpread, OnlyWhatAllHave) {
  const std::vector<SweepCell> cells{Perplexity("a", "f32", 20), Perplexity("b", "q=int4/token", 20)};
  EXPECT_THAT(SpreadOverCuts(cells, CompareCells(cells), {{"a", "b"}}), IsEmpty());
  EXPECT_EQ(CutSpreadTable({}), "");
}

TEST(CutSpread, ModelsAreGroupedByTheirOrigin) {
  const TemporaryFolder folder;
  WriteCalibrationIds(folder / "ids.h5");
  std::vector<std::filesystem::path> models{GoldenFolder("llama-mha")};
  const auto make = [&](const char* name, const char* method, size_t index, size_t count, int64_t tokens = 0) {
    QuantizeJob job{.model = GoldenFolder("llama-mha"),
                    .plan = Plan::Parse("weights=int4/channel"),
                    .out = folder / name,
                    .method = ParseMethod(method),
                    .calibration = folder / "ids.h5",
                    .windows = {.tokens = tokens}};
    job.calibration.cut = {.index = index, .count = count};
    Quantize(job, {});
    models.push_back(job.out);
  };
  make("g1.h5", "gptq", 1, 2);
  make("g0.h5", "gptq", 0, 2);
  make("whole.h5", "gptq", 0, 1);
  make("third.h5", "gptq", 0, 3);  // of other cuts, and alone
  make("q0.h5", "rtn+quantease", 0, 2);
  make("few.h5", "gptq", 1, 2, 100);  // of other windows
  EXPECT_THAT(ModelsByCuts(models), ElementsAre(ElementsAre("g0.h5", "g1.h5")));
}

}  // namespace
}  // namespace tare::cut_spread_test
