// SPDX-License-Identifier: Apache-2.0
// A sweep of golden checkpoints over a text of 2 x 30 ids, which counts the cells that it runs.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/checkpoint.h"
#include "tests/support/ids.h"
#include "tests/support/sweep_cells.h"

namespace tare {

class GoldenSweepTest : public testing::Test {
 protected:
  GoldenSweepTest() {
    PutManyIds(folder_ / "ids.safetensors", 2, 30);
    options_ = GoldenSweep(folder_.path());
  }

  std::vector<SweepCell> Run(const SweepOptions& options) {
    ran_ = 0;
    return RunSweep(options, [&](const std::string&, int64_t) -> Progress {
      ++ran_;
      return {};
    });
  }

  TemporaryFolder folder_;
  SweepOptions options_;
  int ran_ = 0;
};

}  // namespace tare
