// SPDX-License-Identifier: Apache-2.0
#include "quant/base/version.h"

#include <gtest/gtest.h>

#include <string>

namespace tare::version_test {
namespace {

TEST(Version, TheNumberIsTheString) {
  const int n = TARE_VERSION_NUMBER;
  EXPECT_EQ(TARE_VERSION_STRING,
            std::to_string(n / 10000) + "." + std::to_string(n / 100 % 100) + "." + std::to_string(n % 100));
}

}  // namespace
}  // namespace tare::version_test
