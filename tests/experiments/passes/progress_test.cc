// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace tare {
namespace {

TEST(Progress, IsTold) {
  std::string heard;
  Report([&](int64_t done, int64_t total,
             const char* unit) { heard = std::to_string(done) + " of " + std::to_string(total) + " " + unit; },
         3, 8, "items");
  EXPECT_EQ(heard, "3 of 8 items");
}

TEST(Progress, NobodyNeedListen) { EXPECT_NO_THROW(Report({}, 3, 8, "items")); }

}  // namespace
}  // namespace tare
