// SPDX-License-Identifier: Apache-2.0
#include "quant/base/kept.h"

#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare::kept_test {
namespace {

TEST(Kept, IsSaidUntilNothingIs) {
  NoteKept("a.part keeps 3 of 9 batches");
  EXPECT_EQ(KeptText(), "; a.part keeps 3 of 9 batches, and the same command continues");
  NoteKept("");
  EXPECT_EQ(KeptText(), "; nothing was kept");
}

TEST(Kept, WhatIsTakenUpIsSaidToWhoAskedForIt) {
  static std::string said;
  SayContinued("a.part", "3 of 9 batches");  // nobody did
  OnContinued([](const std::string& text) { said += text; });
  SayContinued("b.part", "4 of 9 batches");
  OnContinued(nullptr);
  EXPECT_EQ(said, "b.part: continues from 4 of 9 batches");
}

TEST(Kept, WorkGoesOnAfterAForgottenStop) {
  RequestStop();
  EXPECT_THROW(ParallelFor(1, [](size_t, int) {}), Interrupted);
  ForgetStop();
  int ran = 0;
  ParallelFor(1, [&](size_t, int) { ++ran; });
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace tare::kept_test
