// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/call.h"

namespace tare::steps_table_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Steps, EachIsReadByItsOwnName) {
  std::set<std::string_view> names;
  for (const StepKind* kind : AllSteps()) {
    EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
    const Step step = kind->read(kind->name);
    EXPECT_EQ(step.text, kind->name);
    EXPECT_EQ(static_cast<bool>(step.change), kind->place == StepPlace::kWeights) << kind->name;
    EXPECT_FALSE(step.on_input && step.on_layer) << kind->name;
    EXPECT_TRUE(kind->place != StepPlace::kBetterCodes || step.on_input) << kind->name;
  }
}

TEST(Steps, SayWhatTheyDo) {
  for (const StepKind* kind : AllSteps()) EXPECT_GT(kind->help.size(), 20u) << kind->name;
  EXPECT_EQ(StepsWithText(AllSteps()),
            "cayley, smoothquant, awq, gptq, gptaq, qronos, signround, autoround and quantease");
}

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
}  // namespace tare::steps_table_test
