// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/support/call_tare.h"

namespace tare::topics_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(TopicsTest, TopicsHaveTheTablesOfTheCode) {
  const std::pair<const char*, std::vector<const char*>> topics[] = {
      {"model", {"diffllama", "gpt_oss", "FILE.gguf"}},
      {"plan", {"attn_logits", "nvfp4", "int8, int6, int4"}},
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
}  // namespace tare::topics_test
