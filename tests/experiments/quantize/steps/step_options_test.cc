// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/step_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(StepOptions, NumbersFollowTheColon) {
  EXPECT_EQ(NumberOption<double>("toy", "a number"), std::nullopt);
  EXPECT_EQ(NumberOption<double>("toy:0.5", "a number"), 0.5);
  for (const char* step : {"toy:", "toy:x", "toy:1:2"})
    EXPECT_THAT(Call([&] { NumberOption<int>(step, "a number"); }),
                ThrowsMessage<Error>(HasSubstr("expected a number after the colon")))
        << step;
}

TEST(StepOptions, StepsAndSeedsAreReadAndWritten) {
  EXPECT_EQ(StepsOption("toy", 100), 100);
  EXPECT_EQ(StepsOption("toy:10000", 100), 10000);
  EXPECT_THAT(Call([] { StepsOption("toy:10001", 100); }), ThrowsMessage<Error>(HasSubstr("1 to 10000 steps")));
  for (const auto& [step, canonical] : {std::pair{"toy", "toy"},
                                        {"toy:100", "toy"},
                                        {"toy:7", "toy:7"},
                                        {"toy:100:0", "toy"},
                                        {"toy:100:18446744073709551615", "toy:100:18446744073709551615"}})
    EXPECT_EQ(WithStepsAndSeed("toy", StepsAndSeedOption(step, 100), 100), canonical);
  EXPECT_THAT(Call([] { StepsAndSeedOption("toy:7:-1", 100); }),
              ThrowsMessage<Error>(HasSubstr("a whole number below 2^64 after the second colon")));
}

TEST(StepOptions, LearnedRoundingNeedsIntegers) {
  EXPECT_NO_THROW(RequireIntegers(Plan::Parse("weights=int4/channel").rules().front()));
  EXPECT_THAT(Call([] { RequireIntegers(Plan::Parse("weights=nf4/channel").rules().front()); }),
              ThrowsMessage<Error>(HasSubstr("got nf4, expected integer codes")));
}

}  // namespace
}  // namespace tare
