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

// A figure reads it long after the file was.
TEST(ReportCommandTest, AValueOfAnotherKindIsNoInternalError) {
  const TemporaryFolder folder;
  Json cell = DivergenceCell("m", "cache_k=int4/token", 5, 0.01);
  cell["key"]["cache"] = 3;
  PutFile(folder / "s.json", Json{{"schema", "tare.sweep/3"}, {"cells", {cell}}}.dump());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"report", folder / "s.json"}, {"plot", folder / "s.json", "--figure", "caches"}}) {
    std::vector<std::string> whole = command;
    whole.insert(whole.end(), {"--out", folder / "o.svg"});
    const Outcome outcome = CallTare(whole);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("s.json: "));
    EXPECT_THAT(outcome.err, HasSubstr("was it made by another version? Try making it again"));
  }
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
