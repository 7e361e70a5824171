// SPDX-License-Identifier: Apache-2.0
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
#include "experiments/quantize/calibrated_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "experiments/model/model.h"
#include "experiments/quantize/steps/table.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::calibrated_layers_test {
namespace {

// Of the reading, and then of each batch of each pass.
TEST(CalibratedLayers, ProgressCountsBatches) {
  const TemporaryFolder folder;
  WriteCalibrationIds(folder / "ids.h5");
  for (const auto& [golden, plan, method] : {std::tuple{"llama-gqa", "weights=int4/group16", "gptq"},
                                             {"llama-gqa", "down_proj.w=int4/group16", "gptq"},
                                             {"llama-gqa", "weights=int4/group16", "gptaq"},
                                             {"gpt-oss", "weights=int4/group16", "gptq"},
                                             {"gpt-oss", "weights=int4/group16", "gptaq"},
                                             {"llama-gqa", "weights=int4/group16", "autoround:3"},
                                             {"qwen3", "q_proj.w[l1]=int4/group16", "autoround:3"}}) {
    std::vector<std::string> units;
    int64_t last = 0, all = 0;
    const auto progress = [&](int64_t done, int64_t total, const char* unit) {
      if (units.empty() || units.back() != unit) {
        EXPECT_EQ(last, all) << unit;
        units.emplace_back(unit);
        last = 0;
      }
      EXPECT_GT(done, last);
      last = done;
      all = total;
    };
    Quantize({.model = GoldenFolder(golden),
              .plan = Plan::Parse(plan),
              .out = folder / "q.h5",
              .method = ParseMethod(method),
              .calibration = folder / "ids.h5"},
             progress);
    EXPECT_EQ(last, all);
    EXPECT_THAT(units, testing::ElementsAre("bytes", "batches", "layers written")) << plan;
  }
}

// The layers' targets are those of the stored model: a layer makes up for those before it.
TEST(CalibratedLayers, LayersLearnedTogetherLoseLessThanTheNearest) {
  const TemporaryFolder folder;
  TokenBatch batch;  // of the calibration's ids, whose error is what is learned from
  std::vector<int32_t> tokens;
  for (int i = 0; i < 50; ++i) tokens.push_back((i * i * 7 + 3 * i) % 95 + 1);
  batch.Add(0, tokens);
  Model stored(GoldenFolder("diffllama-gqa"));
  const std::vector<float> exact = LogitsOf(stored, batch);
  const auto distance = [&](const QuantizeJob& job) {
    Quantize(job, {});
    Model model(folder / "g.h5");
    const std::vector<float> logits = LogitsOf(model, batch);
    double sum = 0;
    for (size_t i = 0; i < exact.size(); ++i)
      sum += (double{logits[i]} - double{exact[i]}) * (double{logits[i]} - double{exact[i]});
    return sum;
  };
  const QuantizeJob learned = Calibrated("autoround:100", "diffllama-gqa", "weights=int4/group16", folder);
  QuantizeJob nearest = learned;
  nearest.method = ParseMethod("rtn");
  nearest.calibration = {};
  const double least = distance(nearest);
  EXPECT_LT(distance(learned), 0.7 * least);
}

}  // namespace
}  // namespace tare::calibrated_layers_test
