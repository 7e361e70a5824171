// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "quant/file/hdf5.h"
#include "quant/file/sha256.h"
#include "tests/support/call_tare.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::dump_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DumpTest : public testing::Test {
 protected:
  Outcome Dump(const std::string& model, const std::string& input, std::vector<std::string> options) {
    std::vector<std::string> command{"dump", model, "--input", input, "--out", file_};
    command.insert(command.end(), options.begin(), options.end());
    return CallTare(command);
  }

  TemporaryFolder folder_;
  const std::string file_ = folder_ / "dump.h5";
};

TEST_F(DumpTest, HoldsWhatTheReferenceComputes) {
  for (const char* name : {"llama-gqa", "diffllama-gqa"}) {
    const Outcome outcome = Dump(GoldenFolder(name), GoldenFolder(name) / "expected.safetensors",
                                 {"--sites", "logits,embed,layer_out,final_norm,attn_logits"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("2 sequences of 37 tokens"));
    const Hdf5Reader file(file_);
    file.Verify();
    const Safetensors expected(GoldenFolder(name) / "expected.safetensors");
    EXPECT_EQ(file.Read<int64_t>("input_ids"), ValuesOf<int64_t>(expected, "input_ids"));
    for (const std::string site :
         {"logits", "embed", "layer_out.0", "layer_out.2", "final_norm", "attn_logits.0", "attn_logits.2"}) {
      EXPECT_EQ(file.Shape(site), expected.Find(site)->shape) << site;
      EXPECT_TRUE(AllNear(file.Read<float>(site), ValuesOf<float>(expected, site), 2e-5)) << name << " " << site;
    }
  }
}

// Rounded to 2^-16 of at most 16 nats: a divergence of half of (1.23e-4)^2.
TEST_F(DumpTest, WritesABaseFileOfTheSameLogits) {
  const std::string model = GoldenFolder("llama-gqa"), input = GoldenFolder("llama-gqa") / "expected.safetensors",
                    base = folder_ / "base.kld", json = folder_ / "judged.json";
  ASSERT_EQ(Dump(model, input, {}).exit_code, 0);
  const Outcome outcome = CallTare({"dump", model, "--input", input, "--out", base});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 sequences of 37 tokens"));
  ASSERT_EQ(CallTare({"judge", file_, base, "--json", json}).exit_code, 0);
  const nlohmann::json judged = nlohmann::json::parse(GetFile(json));
  EXPECT_EQ(judged.at("scored").at("first"), 18);
  const nlohmann::json& result = judged.at("cells")[3].at("result");
  EXPECT_LT(std::abs(result.at("kld").get<double>()), 1e-8 + 1e-7);
  EXPECT_EQ(result.at("tokens"), 36);
  EXPECT_EQ(CallTare({"dump", model, "--input", input, "--out", base, "--sites", "embed"}).exit_code, 2);
  EXPECT_THAT(CallTare({"dump", model, "--input", input, "--out", base, "--stride", "16"}).err,
              HasSubstr("--stride: has no effect without an --out named .h5: " + base + " holds logits of windows"));
  EXPECT_EQ(CallTare({"dump", model, "--input", input, "--out", base}).exit_code, 0);  // over its own
}

TEST_F(DumpTest, RecordsItsOrigin) {
  const std::string input = GoldenFolder("llama-mha") / "expected.safetensors";
  ASSERT_EQ(Dump(GoldenFolder("llama-mha"), input, {"--plan", " attn_logits = int8 / row "}).exit_code, 0);
  const Hdf5Reader file(file_);
  EXPECT_THAT(file.datasets(), ElementsAre("input_ids", "logits"));
  EXPECT_EQ(file.StringAttribute("", "schema"), "tare.dump/1");
  EXPECT_EQ(file.StringAttribute("", "version"), "0.1.0");
  EXPECT_EQ(file.StringAttribute("", "model"), "llama-mha");
  EXPECT_EQ(file.StringAttribute("", "plan"), "attn_logits=int8/row");
  EXPECT_EQ(file.StringAttribute("", "input_sha256"), Sha256OfFile(input));
  EXPECT_THAT(file.StringAttribute("", "windows"), HasSubstr("window 0"));
}

TEST_F(DumpTest, APlanChangesTheValues) {
  const std::string input = GoldenFolder("llama-mha") / "expected.safetensors";
  ASSERT_EQ(Dump(GoldenFolder("llama-mha"), input, {"--plan", "attn_logits=int4/row"}).exit_code, 0);
  const auto quantized = Hdf5Reader(file_).Read<float>("logits");
  const Safetensors expected(input);
  EXPECT_FALSE(AllNear(quantized, ValuesOf<float>(expected, "logits"), 1e-3));
  // Loose: a tie that rounds the other way moves what follows. The parity tests hold it to the quantization's effect.
  EXPECT_TRUE(AllNear(quantized, ValuesOf<float>(expected, "logits_q4_row"), 1e-2));
}

TEST_F(DumpTest, TakesIdsFromItsOwnFiles) {
  const std::string model = GoldenFolder("llama-mha"), again = folder_ / "again.h5";
  ASSERT_EQ(Dump(model, GoldenFolder("llama-mha") / "expected.safetensors", {}).exit_code, 0);
  ASSERT_EQ(CallTare({"dump", model, "--input", file_, "--out", again}).exit_code, 0);
  EXPECT_EQ(Hdf5Reader(again).Read<float>("logits"), Hdf5Reader(file_).Read<float>("logits"));
}

TEST_F(DumpTest, EqualInputIsEqualBytesOnAnyNumberOfThreads) {
  const std::string input = GoldenFolder("diffllama-mha") / "expected.safetensors";
  const std::vector<std::string> sites{"--sites", "logits,attn_logits", "--threads"};
  std::vector<std::string> files;
  for (const char* threads : {"1", "3"}) {
    std::vector<std::string> options = sites;
    options.push_back(threads);
    ASSERT_EQ(Dump(GoldenFolder("diffllama-mha"), input, options).exit_code, 0);
    files.push_back(GetFile(file_));
  }
  EXPECT_TRUE(files[0] == files[1]);
}

TEST_F(DumpTest, CutsATextIntoWindows) {
  PutFile(folder_ / "text.txt", "It was the best of times, it was the worst of times, it was the age of wisdom.");
  ASSERT_EQ(
      Dump(PairFolder("novels-standard"), folder_ / "text.txt", {"--window", "9", "--sites", "final_norm"}).exit_code,
      0);
  const Hdf5Reader file(file_);
  const std::vector<int64_t> ids = file.Read<int64_t>("input_ids");
  ASSERT_EQ(file.Shape("input_ids").at(1), 9);
  EXPECT_GT(file.Shape("input_ids")[0], 1);
  for (size_t row = 0; row < ids.size() / 9; ++row) EXPECT_EQ(ids[9 * row], 1) << "<s> of window " << row;
}

TEST_F(DumpTest, RowsOfTwoLengthsAreRefused) {
  PutManyIds(folder_ / "ids.safetensors", 2, 20);
  const Outcome outcome = Dump(GoldenFolder("llama-mha"), folder_ / "ids.safetensors", {"--tokens", "25"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("20 and 5 tokens, expected one length; try --limit"));
  EXPECT_THAT(folder_.Names(), ElementsAre("ids.safetensors"));
}

}  // namespace
}  // namespace tare::dump_test
