// SPDX-License-Identifier: Apache-2.0
// What tests of calibrated methods share: ids to calibrate on, jobs of golden models, and jobs that end on the way.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/passes/progress.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"

namespace tare {

// Eight sequences of 50 ids up to `largest`.
inline void WriteCalibrationIds(const std::filesystem::path& path, int64_t largest = 95) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 400; ++i) ids.push_back((i * i * 7 + 3 * i) % largest + 1);
  Hdf5Writer file(path);
  file.WriteDataset<int64_t>("input_ids", {8, 50}, ids);
  file.Commit();
}

// A job that quantizes a golden model, calibrated on ids.h5, into g.h5.
inline QuantizeJob Calibrated(const std::string& method, const std::string& golden, const char* plan,
                              const TemporaryFolder& folder) {
  WriteCalibrationIds(folder / "ids.h5", std::min(95, LoadConfig(GoldenFolder(golden)).vocabulary - 1));
  return {.model = GoldenFolder(golden),
          .plan = Plan::Parse(plan),
          .out = folder / "g.h5",
          .method = ParseMethod(method),
          .calibration = folder / "ids.h5"};
}

// A calibrated job that `stop` ends leaves parts alone, or nothing; the next run ends in the bytes of `whole`.
inline void ExpectSameBytesAfter(const Progress& stop, const QuantizeJob& job, const std::string& whole,
                                 const TemporaryFolder& folder) {
  std::filesystem::remove(job.out);
  EXPECT_THROW(Quantize(job, stop), Error);
  EXPECT_FALSE(std::filesystem::exists(job.out));
  std::error_code none;  // where no part was finished
  for (const auto& entry : std::filesystem::directory_iterator(folder / "g.h5.parts", none)) {
    EXPECT_THAT(entry.path().filename().string(),
                testing::AnyOf("prepared.h5", testing::MatchesRegex("layer-[0-9]+[.]h5")));
  }
  Quantize(job, {});
  EXPECT_EQ(GetFile(job.out), whole);
  EXPECT_THAT(folder.Names(), testing::UnorderedElementsAre("g.h5", "ids.h5"));
}

// Ends a job at the first progress after it has kept this part.
inline Progress StopOnce(const std::filesystem::path& part) {
  return [part](int64_t, int64_t, const char*) {
    if (std::filesystem::exists(part)) Fail("stopped");
  };
}

}  // namespace tare
