// SPDX-License-Identifier: Apache-2.0
#include "quant/base/size_text.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

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
}  // namespace tare
