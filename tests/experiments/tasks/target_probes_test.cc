// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/probes.h"

namespace tare::target_probes_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(TargetProbes, HaveNoChance) {
  const TemporaryFolder folder;
  PutFile(folder / "t.jsonl",
          "{\"prompt\": \"7 and 12, 12 and 9\", \"targets\": [\"12\"]}\n"
          "{\"prompt\": \"12 9 7\", \"targets\": [\"12\", \"x\"]}\n"
          "{\"prompt\": \"5 6\", \"targets\": [\"11\"]}\n"
          "{\"prompt\": \"a 3 c\", \"targets\": [\"3\", \"a c\"], \"score\": \"all\"}\n");
  const ProbeReport report = ProbeItems(folder / "t.jsonl");
  EXPECT_FALSE(report.chance);
  EXPECT_EQ(Of(report, "constant target").choice, "12");
  EXPECT_EQ(Of(report, "constant target").score, 0.5);
  EXPECT_EQ(Of(report, "first number").score, 0.25);
  EXPECT_EQ(Of(report, "last number").score, 0);
  EXPECT_DOUBLE_EQ(Of(report, "most frequent number").score, (1 + 1. / 3) / 4);
  EXPECT_EQ(Of(report, "in the prompt").score, 0.75);
  EXPECT_THAT(ProbeText(report), Not(HasSubstr("chance")));
}

TEST(TargetProbes, BadFilesAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const char* why) {
    PutFile(folder / "t.jsonl", text);
    EXPECT_THAT(Call([&] { ProbeTargets(folder / "t.jsonl"); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused("{\"prompt\": \"a\", \"targets\": []}", "line 1: got no target, expected at least one target");
  refused("{\"prompt\": \"a\", \"targets\": [1]}", "line 1: \"targets\": got 1, expected a text or a list of texts");
  refused("{\"prompt\": 1, \"targets\": [\"a\"]}", "t.jsonl: line 1: \"prompt\"");
  refused("[]", "t.jsonl: line 1");
}

}  // namespace
}  // namespace tare::target_probes_test
