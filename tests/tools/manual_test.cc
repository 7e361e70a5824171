// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call_tare.h"

namespace tare::manual_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ManualTest, HasEveryCommandOptionAndExample) {
  const std::string page = CallTare({"manual"}).out;
  EXPECT_THAT(page, StartsWith(".TH TARE 1"));
  for (const char* part : {".SS tare inspect\n", ".SS tare bench decode\n", "\\-\\-plan", "tare verify"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_EQ(page.find("\n'"), page.npos);
}

}  // namespace
}  // namespace tare::manual_test
