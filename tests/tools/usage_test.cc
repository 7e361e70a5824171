// SPDX-License-Identifier: Apache-2.0
// An unknown word is reported before a missing one, with the nearest known word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::usage_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Usage, UnknownWordsAreNamedWithTheNearest) {
  EXPECT_THAT(CallTare({"translate"}).err,
              StartsWith("tare: unknown command 'translate'; expected one of inspect plan dump"));
  EXPECT_THAT(CallTare({"evla"}).err, HasSubstr("the nearest is eval"));
  EXPECT_THAT(CallTare({"eval", "M", "--foo"}).err,
              StartsWith("tare eval: unknown option '--foo'; expected one of --help"));
  EXPECT_THAT(CallTare({"eval", "M", "--taks", "x"}).err, HasSubstr("'--taks'; the nearest is --tasks"));
  EXPECT_THAT(CallTare({"inspect", "M", "--jsn=x"}).err, HasSubstr("'--jsn=x'; the nearest is --json"));
  EXPECT_THAT(CallTare({"stats", "show", "S.h5", "--sit", "q"}).err,
              StartsWith("tare stats show: unknown option '--sit'"));
  EXPECT_THAT(CallTare({"inspect", "M", "N"}).err, StartsWith("tare inspect: unknown word 'N'"));
}

TEST(Usage, MissingAndInvalidValuesNameTheCommand) {
  EXPECT_THAT(CallTare({}).err, StartsWith("tare: got no command, expected one of inspect plan dump stats eval"));
  EXPECT_THAT(CallTare({"bench"}).err,
              StartsWith("tare bench: got no command, expected one of forward linear attention"));
  EXPECT_THAT(CallTare({"stats", "show"}).err, StartsWith("tare stats show: FILE is required"));
  EXPECT_THAT(CallTare({"compare", "M", "--tasks", "x", "--out", "C"}).err,
              StartsWith("tare compare: MODELS: got 1, expected 2\n"));
  EXPECT_THAT(CallTare({"eval", "M", "--tasks", "x", "--tokens", "1,000"}).err,
              StartsWith("tare eval: --tokens: got '1,000', expected a whole number of 0 or more\n"));
  EXPECT_THAT(CallTare({"bench", "forward", "--layers", "0"}).err,
              StartsWith("tare bench forward: --layers: got '0', expected a whole number from 1 to 1000\n"));
  EXPECT_THAT(CallTare({"quantize", "M", "--method", "quip", "--out", "Q.h5"}).err,
              StartsWith("tare quantize: --method: 'quip': got step 'quip', expected hadamard"));
  EXPECT_THAT(
      CallTare({"quantize", "M", "--method", "signround:99999999999", "--out", "Q.h5"}).err,
      StartsWith("tare quantize: --method: 'signround:99999999999': expected 1 to 10000 steps after the colon\n"));
  EXPECT_THAT(CallTare({"search", "M", "--within", "x"}).err,
              StartsWith("tare search: --within: got 'x', expected a number\n"));
  EXPECT_THAT(CallTare({"generate", "M", "--prompt", "x", "--seed=-1"}).err,
              StartsWith("tare generate: --seed: got '-1', expected a whole number of 0 or more\n"));
}

// An option that would change nothing is refused.
TEST(Usage, OptionsWithoutEffectAreRefused) {
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors",
                    text = "perplexity=" + ids;
  const TemporaryFolder folder;
  const auto refused = [](const std::vector<std::string>& command, const std::string& says) {
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, 2) << says;
    EXPECT_THAT(outcome.err, HasSubstr(says));
  };
  refused({"eval", model, "--tasks", text, "--executed"}, "--executed: has no effect without a --plan");
  refused({"eval", model, "--tasks", text, "--plan", "int8", "--stats", "S.h5"},
          "--stats: has no effect without a rule");
  refused({"eval", model, "--tasks", text, "--records", folder / "R.jsonl"},
          "--records: has no effect without a task with items or documents");
  refused({"eval", model, "--tasks", text, "--records", "-"}, "--records: got -, expected a file; only --json - is");
  refused({"eval", model, "--tasks", text, "--csv=-"}, "--csv: got -, expected a file; only --json - is");
  refused({"eval", model, "--tasks", "choice=" + ids, "--stride", "3"},
          "--stride: has no effect without a task on a text");
  refused({"dump", model, "--input", ids, "--out", "D.h5", "--executed"}, "--executed: has no effect");
  refused({"plan", "int8", model, "--stats", "S.h5"}, "--stats: has no effect without a rule with +static");
  refused({"quantize", model, "--plan", "int8", "--out", "Q.h5", "--limit", "3"},
          "--limit: has no effect without --cal");
  refused({"quantize", model, "--plan", "int8", "--out", "Q.h5", "--calibrate", ids},
          "--calibrate: has no effect without");
  refused({"stats", model, "--input", ids, "--checkpoint", "3"}, "--checkpoint apply to that file");
  refused({"inspect", model, "--math", "bf16"}, "unknown option '--math'");
  refused({"bench", "linear", "--rows", "7"}, "--rows requires --plan");
}

}  // namespace
}  // namespace tare::usage_test
