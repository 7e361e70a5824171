// SPDX-License-Identifier: Apache-2.0
// A word that the command does not know is named before what it misses, with the nearest that it knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_command.h"

namespace tare {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Usage, AWordThatIsNotKnownIsNamedWithTheNearest) {
  EXPECT_THAT(RunTare({"generate"}).err, StartsWith("tare: unknown command 'generate'; the nearest is "));
  EXPECT_THAT(RunTare({"evla"}).err, HasSubstr("the nearest is eval"));
  EXPECT_THAT(RunTare({"eval", "M", "--foo"}).err, StartsWith("tare eval: unknown option '--foo'; the nearest is --"));
  EXPECT_THAT(RunTare({"inspect", "M", "--jsn=x"}).err, HasSubstr("'--jsn=x'; the nearest is --json"));
  EXPECT_THAT(RunTare({"stats", "show", "S.h5", "--sit", "q"}).err,
              StartsWith("tare stats show: unknown option '--sit'"));
  EXPECT_THAT(RunTare({"inspect", "M", "N"}).err, StartsWith("tare inspect: unknown word 'N'"));
}

}  // namespace
}  // namespace tare
