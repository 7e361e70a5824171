// SPDX-License-Identifier: Apache-2.0
#include "quant/base/formatted.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

TEST(Formatted, IsTextInStdFormatsSyntax) {
  EXPECT_EQ(Formatted("{:>5} of {}: {:.2f}", 3, std::string("eight"), 2.0 / 3), "    3 of eight: 0.67");
  EXPECT_EQ(Formatted("{{}}"), "{}");
}

TEST(Formatted, PrintsToStandardOutput) {
  testing::internal::CaptureStdout();
  PrintText("{}-", 1);
  PrintLine("{:03}", 2);
  PrintLine("");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "1-002\n\n");
}

}  // namespace
}  // namespace tare
