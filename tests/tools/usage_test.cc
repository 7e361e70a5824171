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
              StartsWith("tare: unknown command 'translate'; expected one of inspect stats dump"));
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
  EXPECT_THAT(CallTare({}).err, StartsWith(CallTare({"--help"}).out));
  EXPECT_THAT(CallTare({}).err, HasSubstr("\nLook at a model:\n  inspect"));
  EXPECT_THAT(CallTare({}).err, HasSubstr("\nMeasure what a plan costs:\n"));
  EXPECT_THAT(CallTare({"bench"}).err, StartsWith(CallTare({"bench", "--help"}).out));
  EXPECT_THAT(CallTare({"bench"}).err, HasSubstr("\nCommands:\n  forward"));
  EXPECT_THAT(CallTare({"stats", "show"}).err,
              StartsWith("tare stats show: FILE: got none, expected one; try tare stats show S.h5\n"));
  EXPECT_THAT(CallTare({"compare", "M", "--tasks", "x", "--out", "C"}).err,
              StartsWith("tare compare: MODEL: got 1, expected 2\n"));
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

// What is missing, or goes with nothing else that was given, is a usage error that says what to try.
TEST(Usage, MissingOptionsSayWhatToTry) {
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors";
  const std::pair<std::vector<std::string>, const char*> lines[] = {
      {{"eval", model}, "tare eval: --tasks: got none, expected NAME=FILE,...; try --tasks perplexity="},
      {{"eval", model, "--tasks"}, "tare eval: --tasks: got no value, expected NAME=FILE,...; try --tasks "},
      {{"eval", model, "--tasks", "perplexity=" + ids, "--over", "seed"}, "tare eval: --over: got no --by with it"},
      {{"eval", model, "--tasks", "perplexity=" + ids, "--math", "f64"},
       "tare eval: --math: got 'f64', expected f32 or bf16"},
      {{"inspect"}, "tare inspect: MODEL: got none, expected one; try tare inspect experiments/"},
      {{"plan"}, "tare plan: RULES: got none, expected one; try tare plan int8\n"},
      {{"dump", model, "--out", "D.h5"}, "tare dump: --input: got none, expected FILE; try --input experiments/"},
      {{"stats", model}, "tare stats: --input: got none, expected FILE; try --input experiments/"},
      {{"stats", "--input", ids}, "tare stats: MODEL: got none, expected one; try tare stats experiments/"},
      {{"stats", "show", "S.h5", "--measures"}, "tare stats show: --site: got none, nor --csv"},
      {{"stats", "merge", "S.h5"}, "tare stats merge: --out: got none, expected FILE; try --out S.h5\n"},
      {{"generate", model}, "tare generate: --prompt: got none, expected a text"},
      {{"generate", model, "--prompt", "a", "--input", ids}, "tare generate: --prompt: got --input too"},
      {{"quantize", model, "--plan", "int8"}, "tare quantize: --out: got none, expected FILE; try --out Q.h5"},
      {{"quantize", model, "--plan", "weights=int8/channel", "--method", "gptq", "--out", "Q.h5"},
       "tare: --calibrate: got no text for gptq, expected one; try --calibrate TEXT\n"},
      {{"quantize", model, "--plan", "linear_in=int8/tensor+static", "--out", "Q.h5"}, "tare: --stats: got none for"},
      {{"convert", model, "--out", "m"}, "tare convert: --to: got none, expected FAMILY; try --to diff_v1"},
      {{"sweep", model, "--tasks", "perplexity=" + ids}, "tare sweep: --out: got none, expected DIR; try --out sweep"},
      {{"sweep", model, "--plan", "int8", "--bits", "8", "--tasks", "x", "--out", "s"},
       "tare sweep: --bits: got --plan too, expected one of the two; try leaving out --plan"},
      {{"attribute", model, "--tasks", "x", "--out", "a"}, "tare attribute: --plan: got none, expected RULES; try "},
      {{"maps", model, "--input", ids}, "tare maps: --plan: got none, expected RULES; try --plan attn_logits"},
      {{"levels", model, "--plan", "k=int4/token"}, "tare levels: --calibrate: got none, expected FILE"},
      {{"search", model, "--input", ids, "--out", "s"},
       "tare: search: got 0 of --within, --bits-per-weight and --bytes"},
      {{"make", "shots", "--out", "i.jsonl"}, "tare make shots: --text: got none, expected prose, or examples"},
      {{"bench", "forward", "--hidden", "8", "--heads", "16"}, "tare: --hidden: got 8 for 16 heads, expected"},
      {{"dump", "m", "--input", "t", "--out", "o", "--sites", "logits,probs"},
       "tare dump: --sites: got 'probs', expected logits, embed, layer_out, final_norm or attn_logits"},
      {{"help", "plans"}, "tare help: TOPIC: got 'plans', expected model, plan, tasks, methods, cache or a command"}};
  for (const auto& [line, message] : lines) {
    const Outcome outcome = CallTare(line);
    EXPECT_EQ(outcome.exit_code, 2) << message;
    EXPECT_EQ(outcome.out, "") << message;
    EXPECT_THAT(outcome.err, StartsWith(message));
  }
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
  refused({"quantize", model, "--method", "hadamard", "--out", "Q.h5", "--calibrate", ids},
          "--calibrate: has no effect without");
  refused({"stats", model, "--input", ids, "--checkpoint", "3"},
          "--checkpoint: got no --out with it, expected both; try --out S.h5");
  refused({"inspect", model, "--math", "bf16"}, "unknown option '--math'");
  refused({"bench", "linear", "--rows", "7"}, "--rows: got no --plan with it, expected both");
}

}  // namespace
}  // namespace tare::usage_test
