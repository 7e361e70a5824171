// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/file/json.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::probe_test {
namespace {

using ::testing::HasSubstr;

TEST(ProbeCommand, SaysWhatGuessesScore) {
  const TemporaryFolder folder;
  const std::string items = PairFolder("needles-1.jsonl"), json = folder / "p.json";
  const Outcome outcome = CallTare({"probe", items, "--json", json});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1200 items of 1200 samples; chance is 0.250\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  bag of words              1.000    0.997    1.000    0.000\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\nnot at chance: bag of words, first mention"));
  const nlohmann::json probes = nlohmann::json::parse(GetFile(json));
  EXPECT_EQ(probes["probes"].size(), 8u);
  EXPECT_EQ(probes["command"], "tare probe " + items);
}

TEST(ProbeCommand, WhatAreNoItemsIsRefused) {
  const TemporaryFolder folder;
  PutFile(folder / "t.jsonl", "{\"text\": \"a\"}\n");
  const Outcome outcome = CallTare({"probe", folder / "t.jsonl"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("t.jsonl: line 1"));
  EXPECT_EQ(CallTare({"probe"}).exit_code, 2);
}

}  // namespace
}  // namespace tare::probe_test
