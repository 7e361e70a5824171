// SPDX-License-Identifier: Apache-2.0
#include "quant/base/formatted.h"

#include <gtest/gtest.h>

namespace tare::formatted_test {
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

TEST(SizeTextTest, HasThreeDigits) {
  EXPECT_EQ(SizeText(0), "0 bytes");
  EXPECT_EQ(SizeText(999), "999 bytes");
  EXPECT_EQ(SizeText(1000), "1.00 KB");
  EXPECT_EQ(SizeText(386'304), "386 KB");
  EXPECT_EQ(SizeText(999'600), "1.00 MB");
  EXPECT_EQ(SizeText(9'996'000), "10.0 MB");
  EXPECT_EQ(SizeText(12'345'678'901), "12.3 GB");
  EXPECT_EQ(SizeText(5'000'000'000'000'000), "5000 TB");
}

}  // namespace

}  // namespace tare::formatted_test
