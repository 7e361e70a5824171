// SPDX-License-Identifier: Apache-2.0
// statistics_job_test.cc tests what a job's units give together.
#include "experiments/observe/statistics_units.h"

#include <gtest/gtest.h>

#include "quant/base/error.h"

namespace tare {
namespace {

TEST(StatisticsUnits, ShardsAreParsed) {
  EXPECT_EQ(ParseShard("2/5").index, 2u);
  EXPECT_EQ(ParseShard("2/5").count, 5u);
  for (const char* text : {"", "1", "1/", "/2", "2/2", "0/0", "-1/2", "1/2x", "1 /2", "0x0/2"})
    EXPECT_THROW(ParseShard(text), Error) << text;
}

TEST(StatisticsUnits, SequencesAreIdentifiedByLengthsAndIds) {
  const std::string hash = HashOf({{.tokens = {1, 2, 3}}, {.tokens = {4}}});
  EXPECT_EQ(HashOf({{.tokens = {1, 2, 3}}, {.tokens = {4}}}), hash);
  EXPECT_NE(HashOf({{.tokens = {1, 2}}, {.tokens = {3, 4}}}), hash);
  EXPECT_NE(HashOf({{.tokens = {1, 2, 3}}, {.tokens = {5}}}), hash);
}

}  // namespace
}  // namespace tare
