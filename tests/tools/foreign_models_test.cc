// SPDX-License-Identifier: Apache-2.0
// What other tools quantized is a MODEL for every command.
// In the sanitized build: it reads files that others made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/foreign_folder.h"

namespace tare::foreign_models_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

std::string OutOf(const std::vector<std::string>& words) {
  const Outcome outcome = CallTare(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out;
}

TEST(ForeignModelsCommand, InspectNamesSchemeAndPlan) {
  const std::string w8a8 = OutOf({"inspect", ForeignFolder("llama-compressed-w8a8")});
  EXPECT_THAT(w8a8, HasSubstr("  quantized as compressed-tensors int8/channel: 14 tensors, 8."));
  EXPECT_THAT(w8a8, HasSubstr("  inputs were meant to be rounded as well: --plan linear_in=int8/token\n"));
  EXPECT_THAT(w8a8, HasSubstr("executed as int8+full/channel"));
  EXPECT_THAT(OutOf({"inspect", ForeignFolder("llama-compressed-fp8")}), HasSubstr("dequantized to be executed"));
  const std::string wrong = OutOf({"inspect", ForeignFolder("llama-gptq-named-wrong")});
  EXPECT_THAT(wrong, HasSubstr("  quantized as GPTQ int4/group32: 14 tensors, "));
  EXPECT_THAT(wrong, HasSubstr("  zero points are stored as they are, as their values show;"));
  const auto json = nlohmann::json::parse(OutOf({"inspect", ForeignFolder("llama-awq"), "--json", "-"}));
  EXPECT_NEAR(json["bits_per_weight"].get<double>(), 4 + 20.0 / 32, 1e-9);  // a scale and a zero point for 32
  EXPECT_EQ(json["foreign"][0]["executed_as"], "int4+zero/group32");
  for (const std::string& out : {w8a8, wrong}) {
    for (size_t begin = 0, end; (end = out.find('\n', begin)) != out.npos; begin = end + 1)
      EXPECT_LE(end - begin, 80u) << out.substr(begin, end - begin);
  }
}

TEST(ForeignModelsCommand, EveryCommandTakesThem) {
  const TemporaryFolder folder;
  const std::string gptq = ForeignFolder("llama-gptq"), awq = ForeignFolder("llama-awq");
  const std::string ids = ForeignFolder("llama-gptq") / "expected.safetensors";
  OutOf({"eval", gptq, "--tasks", "perplexity=" + ids, "--json", "-"});
  OutOf({"eval", ForeignFolder("llama-compressed-w8a8"), "--plan", "linear_in=int8/token", "--tasks",
         "perplexity=" + ids, "--executed"});
  OutOf({"stats", gptq, "--input", ids, "--out", folder / "s.h5"});
  OutOf({"sweep", gptq, "--bits", "16,4", "--tasks", "perplexity=" + ids, "--out", folder / "sweep"});
  OutOf({"compare", gptq, awq, "--bits", "4", "--tasks", "perplexity=" + ids, "--attribute", "none", "--out",
         folder / "compare"});
  OutOf({"attribute", gptq, "--plan", "q=int4/token,k=int4/token", "--tasks", "perplexity=" + ids, "--out",
         folder / "attribute"});
  OutOf({"plan", "weights=int4/group16", gptq});
}

// Rounded twice: the file says from what.
TEST(ForeignModelsCommand, QuantizeSaysWhatItStartsFrom) {
  const TemporaryFolder folder;
  OutOf({"quantize", ForeignFolder("llama-gptq"), "--plan", "weights=int8/channel", "--out", folder / "q.h5"});
  const std::string inspected = OutOf({"inspect", folder / "q.h5"});
  EXPECT_THAT(inspected, HasSubstr("quantized from llama-gptq (dequantized from GPTQ int4/group32), method rtn"));
  const std::string ids = ForeignFolder("llama-gptq") / "expected.safetensors";
  OutOf({"eval", folder / "q.h5", "--tasks", "perplexity=" + ids});
  OutOf({"quantize", ForeignFolder("llama-awq"), "--plan", "int4", "--format", "safetensors", "--out", folder / "m"});
  EXPECT_THAT(GetFile(folder / "m" / "config.json"), Not(HasSubstr("quantization_config")));
  OutOf({"inspect", folder / "m"});
}

}  // namespace
}  // namespace tare::foreign_models_test
