// SPDX-License-Identifier: Apache-2.0
// tests/tools/instructions_test.cc tests the effect of a level on the program; here it would apply to every test.
#include "kernels/product/instruction_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::instruction_set_test {
namespace {

TEST(InstructionSet, UnknownLevelsAreRefused) {
  for (const char* level : {"", "avx", "AVX2", "avx512_core"}) {
    EXPECT_THAT(
        Call([&] { LimitInstructions(level); }),
        testing::ThrowsMessage<Error>(testing::HasSubstr(std::string("TARE_MAX_ISA: got '") + level + "', expected ")));
  }
}

}  // namespace
}  // namespace tare::instruction_set_test
