// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/job.h"

#include <gtest/gtest.h>

namespace tare::quantize_job_test {
namespace {

TEST(QuantizeJob, RoundsToNearestUnlessAskedOtherwise) {
  const QuantizeJob job;
  EXPECT_EQ(job.method.Text(), "rtn");
  EXPECT_FALSE(job.method.TakesCalibration());
  EXPECT_TRUE(job.calibration.empty());
}

}  // namespace
}  // namespace tare::quantize_job_test
