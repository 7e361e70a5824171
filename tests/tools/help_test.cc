// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call_tare.h"

namespace tare::help_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> LinesOf(const std::vector<std::string>& command) {
  std::istringstream help(CallTare(command).out);
  std::vector<std::string> lines;
  for (std::string line; std::getline(help, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> Help(const std::string& words) {
  std::istringstream split(words);
  std::vector<std::string> command;
  for (std::string word; split >> word;) command.push_back(word);
  command.push_back("--help");
  return LinesOf(command);
}

// Every command and subcommand, as the manual has them, and the program itself.
std::vector<std::string> Commands() {
  std::vector<std::string> commands{""};
  for (const std::string& line : LinesOf({"manual"})) {
    if (!line.starts_with(".SS tare ")) continue;
    commands.push_back(line.substr(9));
    std::erase(commands.back(), '\\');  // "common\-words"
  }
  return commands;
}

// Words after the first, besides what joins two lines of a shell: what could have gone to the next line.
bool CouldBreak(const std::string& line) {
  std::istringstream words(line);
  std::string first, second;
  words >> first >> second;
  return !second.empty() && second != "\\";
}

// The longest of the commands that the example begins with.
std::string CommandOf(const std::string& example, const std::vector<std::string>& commands) {
  std::string longest;
  for (const std::string& command : commands) {
    if (example.starts_with("tare " + command + " ") && command.size() > longest.size()) longest = command;
  }
  return longest;
}

std::set<std::string> WordsOf(const std::vector<std::string>& help) {
  std::set<std::string> found;
  for (const std::string& line : help) {
    std::istringstream words(line);
    found.insert(std::istream_iterator<std::string>(words), {});
  }
  return found;
}

// Lines after "Examples:", those of one command as one.
std::vector<std::string> ExamplesOf(const std::vector<std::string>& help) {
  std::vector<std::string> examples;
  bool goes_on = false;
  for (auto line = std::ranges::find(help, "Examples:");
       line != help.end() && ++line != help.end() && !line->empty();) {
    const std::string part = line->substr(line->find_first_not_of(' '));
    if (goes_on) {
      examples.back() += part;
    } else {
      examples.push_back(part);
    }
    goes_on = part.ends_with(" \\");
    if (goes_on) examples.back().pop_back();
  }
  return examples;
}

TEST(HelpTest, EveryCommandFits80Columns) {
  const std::vector<std::string> commands = Commands();
  ASSERT_GT(commands.size(), 25u);
  for (const std::string& command : commands) {
    const std::vector<std::string> lines = Help(command);
    EXPECT_GT(lines.size(), 5u) << command;
    for (const std::string& line : lines)
      EXPECT_TRUE(line.size() <= 80 || !CouldBreak(line)) << command << ": " << line;
  }
}

TEST(HelpTest, EveryCommandIsReadOnOneScreen) {
  for (const std::string& command : Commands()) {
    const std::vector<std::string> lines = Help(command);
    EXPECT_LE(lines.size(), 60u) << command;
    const std::string name = command.empty() ? "tare - " : "tare " + command + " - ";
    ASSERT_THAT(lines, testing::Not(testing::IsEmpty())) << command;
    EXPECT_THAT(lines[0], StartsWith(name));
    EXPECT_LE(lines[0].size() - name.size(), 72u) << lines[0];
    EXPECT_THAT(lines, Contains("Exit status: 0 done, 1 failed, 2 usage error.")) << command;
    const std::set<std::string> words = WordsOf(lines);
    for (const char* type : {"TEXT", "INT", "UINT", "FLOAT", "REQUIRED"})
      EXPECT_FALSE(words.contains(type)) << command << ": " << type;
  }
}

// An option's name and value are one line of the manual, its text the next.
TEST(HelpTest, EveryOptionHasAText) {
  const std::vector<std::string> manual = LinesOf({"manual"});
  size_t options = 0;
  for (size_t i = 0; i + 1 < manual.size(); ++i) {
    if (!manual[i].starts_with(".B ")) continue;
    EXPECT_GT(manual[i + 1].size(), 5u) << manual[i];
    EXPECT_FALSE(manual[i + 1].starts_with(".")) << manual[i];
    ++options;
  }
  EXPECT_GT(options, 200u);
}

TEST(HelpTest, OptionsThatManyCommandsHaveAreExplainedOnce) {
  EXPECT_THAT(Help("eval"), Contains("  --threads N  --math f32|bf16  --hash-again  --quiet  --force"));
  EXPECT_THAT(Help(""), Contains("  --math f32|bf16       [f32] type of the factors in matrix products"));
  EXPECT_THAT(LinesOf({"help", "tasks"}), Contains(StartsWith("  --temperature X       generate: ")));
}

TEST(HelpTest, EveryCommandHasTwoExamplesWithOptionsThatItHas) {
  const std::vector<std::string> commands = Commands();
  std::map<std::string, std::vector<std::string>> helps;
  for (const std::string& command : commands) helps[command] = Help(command);
  for (const std::string& command : commands) {
    const std::vector<std::string> examples = ExamplesOf(helps[command]);
    EXPECT_GE(examples.size(), 2u) << command;
    EXPECT_THAT(examples, Contains(StartsWith("tare " + command))) << command;
    for (const std::string& example : examples) {
      EXPECT_THAT(example, StartsWith("tare ")) << command;
      const std::set<std::string> help = WordsOf(helps[CommandOf(example, commands)]);
      std::istringstream words(example);
      for (std::string word; words >> word;) {
        if (!word.starts_with("--") || word == "--help") continue;
        EXPECT_THAT(help, Contains(word)) << command << ": " << example;
      }
    }
  }
}

TEST(HelpTest, LongLinesContinueInTheirColumn) {
  EXPECT_THAT(Help("eval"), Contains("                        (tare help model)"));
  EXPECT_THAT(Help("plot"), Contains("              maps:probs.entropy"));
}

// A paragraph is filled: no line of it ends where the next word had room.
TEST(HelpTest, ParagraphsAreFilled) {
  const std::vector<std::string> help = Help("bench attention");
  const auto begin = std::ranges::find_if(help, [](const auto& line) { return line.starts_with("ukernel: "); });
  ASSERT_NE(begin, help.end());
  for (auto line = begin; !(line + 1)->empty(); ++line)
    EXPECT_GT(line->size() + 1 + (line + 1)->find(' '), 80u) << *line;
}

TEST(HelpTest, ExamplesBreakBeforeOptions) {
  EXPECT_THAT(Help("eval"), Contains(StartsWith("    --tasks ")));
  EXPECT_THAT(Help("generate"), Contains("  tare generate experiments/pair/novels-differential --prompt 'It was' \\"));
}

TEST(TopicsTest, TopicsHaveTheTablesOfTheCode) {
  const std::pair<const char*, std::vector<const char*>> topics[] = {
      {"model", {"diffllama", "gpt_oss", "FILE.gguf"}},
      {"plan", {"attn_logits", "nvfp4", "int8 int6 int4 sage1"}},
      {"tasks", {"perplexity=TEXT", "longppl=TEXT", "--convention NAME"}},
      {"methods", {"autoround[:STEPS[:SEED]]", "quantease", "cayley, smoothquant, awq"}},
      {"cache", {"keep=POLICY/BUDGET", "snapkv-difference"}}};
  for (const auto& [topic, parts] : topics) {
    const Outcome help = CallTare({"help", topic});
    EXPECT_EQ(help.exit_code, 0) << help.err;
    for (const char* part : parts) EXPECT_THAT(help.out, HasSubstr(part)) << topic;
    EXPECT_EQ(help.out.find('{'), help.out.find("{\"text\"")) << topic << ": a table without a name";
    EXPECT_LE(std::ranges::count(help.out, '\n'), 60) << topic;
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << topic << ": " << line;
  }
  EXPECT_THAT(CallTare({"help"}).out, StartsWith("Topics: model, plan, tasks, methods, cache\n"));
}

TEST(TopicsTest, HelpOfACommandIsThatOfItsOption) {
  EXPECT_EQ(CallTare({"help", "bench", "decode"}).out, CallTare({"bench", "decode", "--help"}).out);
  EXPECT_EQ(CallTare({"help", "quantize"}).out, CallTare({"quantize", "--help"}).out);
  EXPECT_EQ(CallTare({"help", "evla"}).exit_code, 2);
}

}  // namespace
}  // namespace tare::help_test
