// SPDX-License-Identifier: Apache-2.0
// A command that is called does what the program does that is started, and the next one knows nothing of it.
#include "tools/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/run_command.h"

namespace tare::program_test {
namespace {

using ::testing::HasSubstr;

TEST(Program, ACalledCommandIsAStartedOne) {
  const std::string model = GoldenFolder("llama-mha");
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"--help"}, {"inspect", model}, {"inspect", "/nowhere"}, {"evla"}}) {
    const Outcome called = CallTare(command), started = StartTare(command);
    EXPECT_EQ(called.exit_code, started.exit_code) << testing::PrintToString(command);
    EXPECT_EQ(called.out, started.out);
    EXPECT_EQ(called.err, started.err);
  }
}

// A folder that the first command was going to make may be a file of the second.
TEST(Program, OutputsOfAnEarlierCommandAreForgotten) {
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("llama-mha"), ids = folder / "ids.safetensors", out = folder / "out";
  PutManyIds(ids, 1, 8);
  EXPECT_EQ(CallTare({"sweep", model, "--bits", "16,none", "--tasks", "perplexity=" + ids, "--out", out}).exit_code, 2);
  EXPECT_EQ(CallTare({"sweep", model, "--plan", "nothing", "--tasks", "perplexity=" + ids, "--out", out}).exit_code, 2);
  const Outcome outcome = CallTare({"eval", model, "--tasks", "perplexity=" + ids, "--json", out});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(Program, EachCommandSaysItsOwnWarnings) {
  const TemporaryFolder folder;
  const std::string text = folder / "text";
  PutFile(text, "It was a dark and stormy night. ");
  for (int run = 0; run < 2; ++run) {
    const Outcome outcome =
        CallTare({"quantize", PairFolder("novels-standard"), "--plan", "q_proj.w[l0]=int4/group16", "--method", "gptq",
                  "--calibrate", text, "--out", folder / ("q" + std::to_string(run) + ".h5")});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("tare: warning: ")) << run;
  }
}

}  // namespace
}  // namespace tare::program_test
