// SPDX-License-Identifier: Apache-2.0
// What tests of calibrated methods share: ids to calibrate on, and jobs that end on the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "experiments/passes/progress.h"
#include "quant/base/error.h"
#include "quant/file/hdf5.h"

namespace tare {

// Eight sequences of 50 ids below 96.
inline void WriteCalibrationIds(const std::filesystem::path& path) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 400; ++i) ids.push_back((i * i * 7 + 3 * i) % 95 + 1);
  Hdf5Writer file(path);
  file.WriteDataset<int64_t>("input_ids", {8, 50}, ids);
  file.Commit();
}

// Ends a job at the first progress after it has kept this part.
inline Progress StopOnce(const std::filesystem::path& part) {
  return [part](int64_t, int64_t, const char*) {
    if (std::filesystem::exists(part)) Fail("stopped");
  };
}

}  // namespace tare
