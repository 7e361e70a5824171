// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
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

// One row each; of several figures of a kind, which --figure KIND lists all, the first ones.
TEST_F(PlotCommandTest, ListsTheFigures) {
  const Outcome outcome = CallTare(Plot("bits", "f.svg"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, StartsWith("tare: --figure: the files have no data for bits, expected one of:\n"
                                      "  largest       largest magnitudes"));
  const Outcome none = CallTare({"plot", folder_ / "o.json", "--out", folder_ / "f.svg"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, StartsWith("tare: --figure: got none, expected one of:\n  largest  "));
  EXPECT_EQ(CallTare({"plot", folder_ / "o.json", "--out", folder_ / "f.svg", "--figure"}).err, none.err);
  EXPECT_EQ(CallTare({"plot", folder_ / "o.json", "--figure", "--out", folder_ / "f.svg"}).err, none.err);
  EXPECT_EQ(CallTare({"plot", folder_ / "o.json", "--figure"}).err, none.err);
  EXPECT_THAT(CallTare({"plot", folder_ / "o.json", "--figure", "largest"}).err,
              StartsWith("tare plot: --out: got none, expected FILE; try --out bits.svg"));
  EXPECT_EQ(CallTare(Plot("largest", "f.gif")).exit_code, 2);

  const std::filesystem::path model = GoldenFolder("diffllama-gqa");
  const Outcome made = CallTare({"stats", model, "--input", model / "expected.safetensors", "--out", folder_ / "s.h5"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto listed = [&](const std::string& figure) {
    return CallTare({"plot", folder_ / "s.h5", "--figure", figure, "--out", folder_ / "f.svg"}).err;
  };
  EXPECT_THAT(listed("x"), HasSubstr("\n  maps:"));
  EXPECT_THAT(listed("x"), HasSubstr("--figure maps"));
  EXPECT_LT(listed("x").size(), 1500u);
  EXPECT_THAT(listed("maps"), HasSubstr(" maps:probs.entropy"));
  EXPECT_THAT(listed("maps"), testing::Not(HasSubstr("--figure maps")));
  std::istringstream lines(listed("maps"));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(PlotCommandTest, WithoutTheConverterTheMessageNamesThePackage) {
  for (const std::string out : {"f.pdf", "f.png"}) {
    const Outcome outcome = StartTare(Plot("largest", out), {.environment = {"PATH=/nowhere"}});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("apt install librsvg2-bin"));
    EXPECT_THAT(outcome.err, HasSubstr(out.substr(1)));
    EXPECT_FALSE(std::filesystem::exists(folder_ / out));
  }
}

// What is said to the converter, where this machine has none.
TEST_F(PlotCommandTest, AsksForAPngOnWhite) {
  std::filesystem::create_directory(folder_ / "bin");
  PutFile(folder_ / "bin/rsvg-convert", "#!/bin/sh\nout=$2 in=$3\nshift 3\n{ echo \"$@\"; /bin/cat $in; } >$out\n");
  std::filesystem::permissions(folder_ / "bin/rsvg-convert", std::filesystem::perms::all);
  const CommandSetting with{.environment = {"PATH=" + (folder_ / "bin").string()}};
  ASSERT_EQ(StartTare(Plot("largest", "f.png"), with).exit_code, 0);
  EXPECT_THAT(GetFile(folder_ / "f.png"), StartsWith("--format=png --zoom=3 --background-color=white\n<svg"));
  ASSERT_EQ(StartTare(Plot("largest", "f.pdf"), with).exit_code, 0);
  EXPECT_THAT(GetFile(folder_ / "f.pdf"), StartsWith("--format=pdf\n<svg"));
}

TEST_F(PlotCommandTest, WritesAPng) {
  const Outcome outcome = StartTare(Plot("largest", "f.png"));
  if (outcome.err.contains("not found")) GTEST_SKIP() << "no rsvg-convert; tools/setup.sh installs it";
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(GetFile(folder_ / "f.png"), StartsWith("\x89PNG\r\n"));
}

}  // namespace
}  // namespace tare::plot_test
