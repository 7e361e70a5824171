// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/map_error_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "tests/support/golden.h"
#include "tests/support/site_recorder.h"

namespace tare {
namespace {

std::vector<ScoredSequence> Sequences() { return {{{1, 5, 9, 2, 7, 3, 8}}, {{1, 4, 4, 6, 11}}}; }

std::vector<std::vector<MapErrors>> Measure(const char* model, const char* plan) {
  Model exact(GoldenFolder(model)), planned(GoldenFolder(model));
  PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(exact));
  return MeasureMapErrors(exact, planned, run, Sequences(), {});
}

// The first layer's maps of whole passes, where inputs are the same.
TEST(MapErrorPass, FirstLayerAsInAWholePass) {
  for (const char* name : {"diffllama-gqa", "llama-mha"}) {
    const auto layers = Measure(name, "k=int4/token");
    Model model(GoldenFolder(name));
    PlanRun run(Plan::Parse("k=int4/token"), Carrying::kSimulated, ModelSitesOf(model));
    Recorder exact, noisy;
    SiteVisitor* const look[] = {&exact};
    ForwardAll(model, look, Sequences(), {}, [](const TokenBatch&, size_t) {});
    const SiteVisitors plans = run.Begin(model);
    std::vector<SiteVisitor*> both(plans.begin(), plans.end());
    both.push_back(&noisy);
    ForwardAll(model, both, Sequences(), {}, [](const TokenBatch&, size_t) {});
    for (int64_t sequence = 0; sequence < 2; ++sequence) {
      double squares[2] = {}, difference = 0;
      for (const auto& [key, seen] : exact.sites) {
        if (key.layer != 0 || (key.site != Site::kProbs && key.site != Site::kDifference)) continue;
        for (const auto& [place, row] : seen.rows) {
          if (place.first != sequence) continue;
          for (size_t j = 0; j < row.size(); ++j) {
            const double error = double{noisy.sites[key].rows[place][j]} - double{row[j]};
            (key.map ? squares[*key.map - 1] : difference) += error * error;
          }
        }
      }
      const MapErrors& errors = layers[0][static_cast<size_t>(sequence)];
      EXPECT_NEAR(errors.maps[0].error_squares, squares[0], 1e-6 * squares[0]);
      EXPECT_NEAR(errors.maps[1].error_squares, squares[1], 1e-6 * squares[1]);
      EXPECT_NEAR(errors.difference.error_squares, difference, 1e-4 * difference);  // lambda to f32's last digits
      EXPECT_GT(squares[0], 0);
    }
  }
}

// Of what only the first layer does the second sees nothing.
TEST(MapErrorPass, EveryLayerHasExactInputs) {
  const auto layers = Measure("diffllama-mha", "q[l0]=int4/token,v=int4/token");
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_GT(layers[0][0].maps[0].error_squares, 0);
  EXPECT_EQ(layers[1][0].maps[0].error_squares, 0);
  EXPECT_EQ(layers[1][1].difference.error_squares, 0);
  EXPECT_GT(layers[1][1].difference.map_squares, 0);
}

TEST(MapErrorPass, ExecutedPlansShowNoMaps) {
  Model model(GoldenFolder("llama-mha"));
  PlanRun run(Plan::Parse("weights=int8/channel"), Carrying::kExecuted, ModelSitesOf(model));
  EXPECT_THAT(
      [&] { MeasureMapErrors(model, model, run, Sequences(), {}); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("expected a simulated one: integer kernels show no maps")));
}

}  // namespace
}  // namespace tare
