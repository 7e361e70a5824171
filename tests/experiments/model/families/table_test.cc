// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/family.h"
#include "experiments/model/families/llama.h"
#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::families_table_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FamilyTableTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(&FamilyNamed("llama", "here"), &kLlama);
  EXPECT_EQ(&FamilyNamed("Motif", "here"), &FamilyNamed("motif", "here"));  // as its published checkpoints write it
  EXPECT_THAT(Call([] { FamilyNamed("gpt2", "here"); }),
              ThrowsMessage<Error>(HasSubstr("here: got 'gpt2', expected llama")));
}

}  // namespace
}  // namespace tare::families_table_test
