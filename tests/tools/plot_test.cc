// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call_tare.h"
#include "tests/support/report_material.h"
#include "tests/support/run_command.h"

namespace tare::plot_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PlotCommandTest : public testing::Test {
 protected:
  PlotCommandTest() { PutFile(folder_ / "o.json", OutliersOf("m", 20, 60).dump()); }
  std::vector<std::string> Plot(const std::string& figure, const std::string& out) {
    return {"plot", folder_ / "o.json", "--figure", figure, "--out", folder_ / out};
  }
  TemporaryFolder folder_;
};

TEST_F(PlotCommandTest, WritesOneFigure) {
  const Outcome outcome = CallTare(Plot("largest", "f.svg"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(GetFile(folder_ / "f.svg"), StartsWith("<svg"));
  EXPECT_THAT(outcome.out, HasSubstr("f.svg: Largest and median magnitude"));
}

TEST_F(PlotCommandTest, ListsTheFigures) {
  const Outcome outcome = CallTare(Plot("bits", "f.svg"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--figure bits: the files have no data for it, expected one of: largest"));
  EXPECT_EQ(CallTare(Plot("largest", "f.png")).exit_code, 2);
}

TEST_F(PlotCommandTest, WithoutTheConverterAPdfNamesThePackage) {
  const Outcome outcome = StartTare(Plot("largest", "f.pdf"), {.environment = {"PATH=/nowhere"}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("apt install librsvg2-bin"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "f.pdf"));
}

}  // namespace
}  // namespace tare::plot_test
