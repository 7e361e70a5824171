// SPDX-License-Identifier: Apache-2.0
// The command as a whole: exit codes, usage and help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare::tare_test {
namespace {

using ::testing::HasSubstr;

const std::vector<std::vector<std::string>> kCommands = {
    {"inspect"}, {"dump"},      {"stats"}, {"eval"},   {"sweep"},
    {"compare"}, {"attribute"}, {"maps"},  {"levels"}, {"bench", "forward"}};

Outcome Help(std::vector<std::string> command) {
  command.push_back("--help");
  return CallTare(command);
}

TEST(TareTest, HelpNamesEverySubcommand) {
  const Outcome help = CallTare({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.err, "");
  for (const auto& command : kCommands) EXPECT_THAT(help.out, HasSubstr("\n  " + command[0] + " ")) << command[0];
  EXPECT_THAT(CallTare({"--version"}).out, testing::MatchesRegex("tare 0\\.1\\.0( \\([0-9a-f]+\\))?\n"));
}

// Files of the example, as `task=file,task=file` too.
std::vector<std::string> FilesOf(std::string example) {
  for (char& c : example) c = c == '=' || c == ',' ? ' ' : c;
  std::istringstream words(example);
  std::vector<std::string> files;
  for (std::string word; words >> word;) {
    if (word.starts_with("experiments/")) files.push_back(word);
  }
  return files;
}

TEST(TareTest, EveryHelpHasAnExampleWithFilesThatAreThere) {
  for (const auto& command : kCommands) {
    const Outcome help = Help(command);
    EXPECT_EQ(help.exit_code, 0);
    const size_t at = help.out.find("Examples:\n  tare " + command[0]);
    ASSERT_NE(at, std::string::npos) << help.out;
    const std::vector<std::string> files = FilesOf(help.out.substr(at));
    EXPECT_EQ(files.empty(), command[0] == "bench");
    for (const std::string& file : files)
      EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(TARE_SOURCE_DIR) / file)) << file;
  }
}

TEST(TareTest, WrongUsageIsExit2) {
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors";
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {},
           {"weigh"},
           {"inspect"},
           {"inspect", model, model},
           {"inspect", model, "--jsn", "x"},
           {"inspect", model, "--json"},
           {"inspect", model, "--threads", "-1"},
           {"inspect", model, "--threads", "two"},
           {"inspect", model, "--math", "f64"},
           {"dump", model, "--input", ids},
           {"dump", model, "--out", "x.h5"},
           {"stats", "--input", ids},
           {"stats", model},
           {"stats", model, "--input", ids, "--tokens", "-1"},
           {"stats", model, "--input", ids, "--limit", "1.5"},
           {"stats", model, "--input", ids, "--window", "99999999999999999999"},
           {"eval", model},
           {"sweep", model, "--tasks", "perplexity=" + ids},
           {"sweep", "--tasks", "perplexity=" + ids, "--out", "x"},
           {"sweep", model, "--tasks", "perplexity=" + ids, "--out", "x", "--bits", "16,four"},
           {"bench"},
           {"bench", "forward", "--layers", "0"}}) {
    const Outcome outcome = StartTare(wrong);
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(wrong);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("Run with --help")) << testing::PrintToString(wrong);
  }
}

}  // namespace
}  // namespace tare::tare_test
