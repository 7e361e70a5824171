// SPDX-License-Identifier: Apache-2.0
// GGUF files as MODEL of the commands.
// In the sanitized build: it reads files that others made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::gguf_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

std::string Golden(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / name;
}

Json JsonOf(const std::vector<std::string>& words) {
  const Outcome outcome = CallTare(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return Json::parse(outcome.out);
}

double PerplexityOf(const std::string& model) {
  const Json json =
      JsonOf({"eval", model, "--tasks", "perplexity=" + Golden("llama-q4_k_m.safetensors"), "--json", "-"});
  return json["tasks"]["perplexity:llama-q4_k_m"]["perplexity"].get<double>();
}

TEST(GgufTest, InspectNamesTypesAndBitsPerWeight) {
  const Outcome outcome = CallTare({"inspect", Golden("llama-q4_k_m.gguf")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"llama-q4_k_m.gguf: llama", "quantized as GGUF Q4_K: ", "4.50 bits per weight",
                           "quantized as GGUF Q6_K: ", "no tokenizer"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  const Json json = JsonOf({"inspect", Golden("llama-q4_k_m.gguf"), "--json", "-"});
  EXPECT_EQ(json["schemes"]["GGUF Q4_K"]["bits_per_weight"], 4.5);
  EXPECT_EQ(json["schemes"]["GGUF Q6_K"]["bits_per_weight"], 6.5625);
  EXPECT_EQ(json["foreign"][0]["scheme"], "GGUF Q6_K");
}

TEST(GgufTest, ConvertedToAFolderItComputesTheSame) {
  const TemporaryFolder folder;
  const std::string out = folder / "folder";
  EXPECT_EQ(CallTare({"convert", Golden("llama-q4_k_m.gguf"), "--to", "llama", "--out", out}).exit_code, 0);
  EXPECT_EQ(PerplexityOf(out), PerplexityOf(Golden("llama-q4_k_m.gguf")));
}

TEST(GgufTest, QuantizeStartsFromItsValuesAndSaysSo) {
  const TemporaryFolder folder;
  const std::string out = folder / "q.h5", model = Golden("llama-q4_k_m.gguf");
  ASSERT_EQ(CallTare({"quantize", model, "--plan", "weights=int8/channel", "--out", out}).exit_code, 0);
  const Json json = JsonOf({"inspect", out, "--json", "-"});
  EXPECT_THAT(json["source"].get<std::string>(), HasSubstr("llama-q4_k_m.gguf (dequantized from GGUF Q4_K, GGUF"));
  // 8 bits over these 4 move the logits, but little; a rotation moves their last bits.
  const double own = PerplexityOf(model), moved = PerplexityOf(out) / own;
  EXPECT_NEAR(moved, 1, 0.02);
  EXPECT_GT(std::abs(moved - 1), 1e-6);
  const std::string rotated = folder / "r.h5";
  ASSERT_EQ(CallTare({"quantize", model, "--method", "hadamard", "--out", rotated}).exit_code, 0);
  EXPECT_NEAR(PerplexityOf(rotated) / own, 1, 1e-4);
  EXPECT_NE(PerplexityOf(rotated), own);
}

TEST(GgufTest, StatisticsAndPlansTakeIt) {
  const std::string ids = Golden("llama-q4_k_m.safetensors"), model = Golden("llama-q4_k_m.gguf");
  EXPECT_EQ(CallTare({"stats", model, "--input", ids}).exit_code, 0);
  const Json json = JsonOf({"eval", model, "--plan", "weights=int4/channel,attn_logits=int6/row", "--tasks",
                            "perplexity=" + ids, "--json", "-"});
  EXPECT_GT(json["tasks"]["perplexity:llama-q4_k_m"]["perplexity"].get<double>(), 0);
  EXPECT_EQ(CallTare({"eval", model, "--executed", "--plan", "int8", "--tasks", "perplexity=" + ids}).exit_code, 0);
}

TEST(GgufTest, DamagedFilesAreRefusedByName) {
  const TemporaryFolder folder;
  const std::string whole = GetFile(Golden("llama-q4_k_m.gguf")), file = folder / "m.gguf";
  PutFile(file, whole.substr(0, whole.size() / 2));
  const Outcome outcome = CallTare({"inspect", file});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("m.gguf: tensor '"));
  EXPECT_THAT(outcome.err, HasSubstr("try downloading it again"));
}

}  // namespace
}  // namespace tare::gguf_test
