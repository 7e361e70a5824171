// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/run_command.h"

namespace tare {
namespace {

std::vector<std::string> Lines(const std::vector<std::string>& command) {
  std::istringstream help(RunTare(command).out);
  std::vector<std::string> lines;
  for (std::string line; std::getline(help, line);) lines.push_back(line);
  return lines;
}

// Words after the first, besides what joins two lines of a shell: what could have gone to the next line.
bool CouldBreak(const std::string& line) {
  std::istringstream words(line);
  std::string first, second;
  words >> first >> second;
  return !second.empty() && second != "\\";
}

TEST(HelpTest, EveryCommandFits80Columns) {
  for (const char* command : {"inspect", "dump", "stats", "eval", "generate", "quantize", "plan", "convert", "verify",
                              "sweep", "compare", "tokenize", "bench", "report", "plot"}) {
    const std::vector<std::string> lines = Lines({command, "--help"});
    ASSERT_GT(lines.size(), 5u) << command;
    for (const std::string& line : lines)
      EXPECT_TRUE(line.size() <= 80 || !CouldBreak(line)) << command << ": " << line;
  }
}

TEST(HelpTest, AnExampleThatIsBrokenIsStillOneCommand) {
  const std::vector<std::string> lines = Lines({"sweep", "--help"});
  const auto example = std::ranges::find(lines, "Example:");
  ASSERT_NE(example, lines.end());
  for (auto line = example + 1; line + 1 < lines.end() && !(line + 1)->empty(); ++line)
    EXPECT_TRUE(line->ends_with(" \\")) << *line;
}

}  // namespace
}  // namespace tare
