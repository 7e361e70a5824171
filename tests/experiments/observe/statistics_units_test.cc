// SPDX-License-Identifier: Apache-2.0
// statistics_job_test.cc tests what a job's units give together.
#include "experiments/observe/statistics_units.h"

#include <gtest/gtest.h>

namespace tare::statistics_units_test {
namespace {

TEST(StatisticsUnits, SequencesAreIdentifiedByLengthsAndIds) {
  const std::string hash = HashOf({{.tokens = {1, 2, 3}}, {.tokens = {4}}});
  EXPECT_EQ(HashOf({{.tokens = {1, 2, 3}}, {.tokens = {4}}}), hash);
  EXPECT_NE(HashOf({{.tokens = {1, 2}}, {.tokens = {3, 4}}}), hash);
  EXPECT_NE(HashOf({{.tokens = {1, 2, 3}}, {.tokens = {5}}}), hash);
}

}  // namespace
}  // namespace tare::statistics_units_test
