// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call_tare.h"
#include "tests/support/report_material.h"

namespace tare::report_test {
namespace {

using ::testing::HasSubstr;

TEST(ReportCommandTest, WritesAPage) {
  const TemporaryFolder folder;
  PutFile(folder / "o.json", OutliersOf("m", 20, 60).dump());
  const Outcome outcome = CallTare({"report", folder / "o.json", "--out", folder / "r.html", "--title", "A & B"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("r.html: 1 figure"));
  EXPECT_THAT(GetFile(folder / "r.html"), HasSubstr("<title>A &amp; B</title>"));
}

TEST(ReportCommandTest, FilesWithoutAFigureAreRefused) {
  const TemporaryFolder folder;
  PutFile(folder / "i.json", R"({"schema":"tare.inspect/1","model":"m"})");
  const Outcome outcome = CallTare({"report", folder / "i.json", "--out", folder / "r.html"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("got nothing to draw a figure from"));
  EXPECT_FALSE(std::filesystem::exists(folder / "r.html"));
}

}  // namespace
}  // namespace tare::report_test
