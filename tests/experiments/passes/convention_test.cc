// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/convention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::convention_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Convention, NamesAreThoseOfTheTable) {
  EXPECT_EQ(ConventionNamed("llama.cpp"), Convention::kLlamaCpp);
  EXPECT_EQ(ConventionNames(), "tare, llama.cpp or lm-eval");
  EXPECT_THAT(Call([] { ConventionNamed("hf"); }),
              ThrowsMessage<Error>(HasSubstr("--convention: got 'hf', expected tare, llama.cpp or lm-eval")));
}

TEST(Convention, EachIsInTheTable) {
  for (const Convention convention : {Convention::kTare, Convention::kLlamaCpp, Convention::kLmEval})
    EXPECT_EQ(ConventionNamed(InfoOf(convention).name), convention);
}

}  // namespace
}  // namespace tare::convention_test
