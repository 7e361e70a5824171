// SPDX-License-Identifier: Apache-2.0
// tare quantize, verify, inspect and eval as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "quant/base/message.h"
#include "quant/file/checkpoint_files.h"
#include "quant/file/quantized_checkpoint.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare::quantize_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class QuantizeCommand : public testing::Test {
 protected:
  // The beginning of a text of the embedded pair, all of which takes a tokenizer most of a second.
  std::string Text(const std::string& name) const {
    PutFile(texts_ / name, GetFile(PairFolder(name)).substr(0, 20000));
    return texts_ / name;
  }
  const TemporaryFolder texts_;
  const std::string text_ = Text("heldout.txt");
};

TEST_F(QuantizeCommand, TheFileIsAModelForEveryCommand) {
  const TemporaryFolder folder;
  const std::string model = PairFolder("novels-differential"), file = folder / "q.h5";
  const Outcome made = CallTare({"quantize", model, "--plan", "weights=int8/channel", "--out", file, "--json", "-"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const nlohmann::json said = nlohmann::json::parse(made.out);
  EXPECT_NEAR(said["bits_per_weight"].get<double>(), 8.11, 0.01);
  EXPECT_TRUE(said["output_error"].is_null());
  EXPECT_GT(said["weight_error"], 0);
  const Outcome verified = CallTare({"verify", file});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("whole"));
  const Outcome inspected = CallTare({"inspect", file});
  EXPECT_THAT(inspected.out, HasSubstr(", method rtn\n  plan weights=int8/channel\n"));
  EXPECT_THAT(inspected.out, HasSubstr(" n format     group      bytes  bits\n"));
  const auto perplexity = [&](const std::string& path) {
    const Outcome outcome = CallTare({"eval", path, "--tasks", "perplexity=" + text_, "--limit", "4", "--json", "-"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["tasks"]["perplexity:heldout"]["perplexity"].get<double>();
  };
  EXPECT_NEAR(perplexity(file) / perplexity(model), 1.0, 0.005);  // INT8 weights within half a percent
}

TEST_F(QuantizeCommand, RotationsAreLearnedOnACalibrationText) {
  const TemporaryFolder folder;
  const std::string model = PairFolder("novels-standard");
  for (const std::string method : {"cayley:1", "cayley:1:3+rtn"}) {
    const Outcome made = CallTare({"quantize", model, "--plan", "weights=int4/group16", "--method", method,
                                   "--calibrate", text_, "--tokens", "128", "--out", folder / method});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    EXPECT_THAT(made.out, HasSubstr("calibrated on heldout.txt, 129 tokens in 1 window"));
  }
  EXPECT_THAT(CallTare({"inspect", folder / "cayley:1:3+rtn"}).out, HasSubstr(", method cayley:1:3+rtn\n"));
}

TEST_F(QuantizeCommand, SharesOfTextsThatWindowsMissAreSaid) {
  const TemporaryFolder folder;
  const std::string other = Text("nowhere.txt");
  const auto made = [&](const std::string& texts) {
    const Outcome outcome =
        CallTare({"quantize", PairFolder("novels-standard"), "--plan", "q_proj.w[l0]=int4/group16", "--method", "gptq",
                  "--calibrate", texts, "--window", "512", "--tokens", "2000", "--out", folder / "q.h5"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(made(text_ + ":3," + other),
              HasSubstr("heldout.txt, 1024 tokens in 2 windows (67 %, asked 75 %); nowhere.txt, 501 tokens in 1 window "
                        "(33 %, asked 25 %)\n"));
  EXPECT_THAT(made(text_ + "," + other),
              HasSubstr("heldout.txt, 512 tokens in 1 window; nowhere.txt, 512 tokens in 1 window\n"));
}

TEST_F(QuantizeCommand, CompressedTensorsAreAFolderOrNothing) {
  const TemporaryFolder folder;
  const std::string model = PairFolder("novels-standard");
  const auto quantize = [&](const std::string& plan, const std::string& to) {
    return CallTare({"quantize", model, "--plan", plan, "--format", "compressed-tensors", "--out", folder / to});
  };
  const Outcome made = quantize("weights=int4/group16", "m");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("28 matrices, 6.02 bits per weight\n"));
  EXPECT_THAT(made.out, testing::ContainsRegex("error of the weights 0[.][0-9]+; outputs not measured: no text, try"));
  EXPECT_THAT(made.out, HasSubstr(": 28 matrices in pack-quantized"));
  const Outcome refused = quantize("weights=int6/channel", "n");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--format compressed-tensors does not write"));
  const Outcome branch = CallTare({"quantize", model, "--plan", "weights=int4/group16", "--method", "svdquant:2",
                                   "--format", "compressed-tensors", "--out", folder / "b"});
  EXPECT_EQ(branch.exit_code, 2);
  EXPECT_THAT(branch.err, HasSubstr("got --method svdquant:2, expected codes without a low-rank branch"));
  EXPECT_EQ(quantize("weights=int4/group16", "m").exit_code, 1);  // is there already
  EXPECT_THAT(folder.Names(), testing::ElementsAre("m"));
  EXPECT_THAT(CallTare({"inspect", folder / "m"}).out, HasSubstr("compressed-tensors int4/group16"));
}

// Once its first layer is kept: it says where, and how to go on.
TEST_F(QuantizeCommand, InterruptedItSaysWhatIsKept) {
  const TemporaryFolder folder;
  std::vector<std::string> words{"quantize",    PairFolder("novels-standard"),
                                 "--plan",      "weights=int4/group16",
                                 "--method",    "gptq",
                                 "--calibrate", text_,
                                 "--tokens",    "3000",
                                 "--out",       folder / "q.h5"};
  ASSERT_EQ(CallTare(words).exit_code, 0);
  const std::string whole = GetFile(folder / "q.h5"), parts = folder / "q.h5.parts";
  std::filesystem::remove(folder / "q.h5");
  RunningCommand command(TareCommand(words));
  command.SignalOnce([&] { return std::filesystem::exists(parts + "/layer-0.h5"); }, SIGINT);
  const Outcome stopped = command.Wait();
  EXPECT_EQ(stopped.exit_code, -SIGINT);
  EXPECT_THAT(stopped.err,
              testing::MatchesRegex("tare: interrupted: no half-written file was left behind; .*q.h5.parts "
                                    "keeps [1-4] layers?, and the same command continues\n"));
  EXPECT_THAT(folder.Names(), testing::ElementsAre("q.h5.parts"));
  const Outcome continued = CallTare(words);
  EXPECT_EQ(continued.exit_code, 0);
  EXPECT_THAT(continued.err, testing::ContainsRegex("q.h5.parts: continues from [1-4] of 4 layers\n"));
  EXPECT_EQ(GetFile(folder / "q.h5"), whole);
}

// Two texts in proportion; and two cuts of one by two methods, of which tare sweep says what they have in common, and
// how the methods differ.
TEST_F(QuantizeCommand, TextsWithWeightsAndCutsOfATextAreSaid) {
  const TemporaryFolder folder;
  PutFile(folder / "a.txt", "Call me Ishmael. Some years ago, never mind how long precisely, having little money.\n");
  const auto quantize = [&](const std::string& out, std::vector<std::string> more, const char* method = "gptq") {
    std::vector<std::string> words{"quantize", PairFolder("novels-standard"),
                                   "--plan",   "weights=int4/channel",
                                   "--method", method,
                                   "--tokens", "600",
                                   "--window", "16",
                                   "--out",    folder / out};
    words.insert(words.end(), more.begin(), more.end());
    return CallTare(words);
  };
  const Outcome mixed = quantize("m.h5", {"--calibrate", (folder / "a.txt").string() + ":1," + text_ + ":3"});
  ASSERT_EQ(mixed.exit_code, 0) << mixed.err;
  EXPECT_THAT(mixed.out,
              testing::ContainsRegex("calibrated on a.txt, [0-9]+ tokens in [0-9]+ windows?.*; heldout.txt"));
  EXPECT_THAT(mixed.out,
              testing::ContainsRegex("  error of the layers' outputs 0[.][0-9]+, of the weights 0[.][0-9]+\n"));
  EXPECT_THAT(QuantizedCheckpoint(folder / "m.h5").provenance().calibration, HasSubstr("; heldout.txt, sha256 "));
  EXPECT_EQ(quantize("n.h5", {"--calibrate", text_, "--cut", "2/2"}).exit_code, 2);
  EXPECT_EQ(quantize("n.h5", {"--calibrate", text_ + ":x"}).exit_code, 2);
  std::vector<std::string> sweep{"sweep",
                                 "--source",
                                 PairFolder("novels-standard"),
                                 "--tasks",
                                 "perplexity=" + text_,
                                 "--tokens",
                                 "1500",
                                 "--window",
                                 "64",
                                 "--out",
                                 folder / "s"};
  for (const std::string method : {"gptq", "gptaq"}) {
    for (const std::string cut : {"0", "1"}) {
      const std::string out = (method == "gptq" ? "cut-" : "moved-") + cut + ".h5";
      ASSERT_EQ(quantize(out, {"--calibrate", text_, "--cut", cut + "/2"}, method.c_str()).exit_code, 0);
      sweep.push_back(folder / out);
    }
  }
  const Outcome swept = CallTare(sweep);
  ASSERT_EQ(swept.exit_code, 0) << swept.err;
  EXPECT_THAT(swept.out, HasSubstr("over cuts of the calibration text"));
  EXPECT_THAT(swept.out, HasSubstr("cut-0.h5 .. cut-1.h5"));
  EXPECT_THAT(swept.out, HasSubstr("between methods, cut by cut"));
  const auto json = nlohmann::json::parse(GetFile(folder / "s" / "table.json"));
  EXPECT_EQ(json["over_cuts"][0]["cuts"], 2);
  ASSERT_EQ(json["between_methods"].size(), 1u);
  EXPECT_EQ(json["between_methods"][0]["plan"], "cut-0.h5 .. cut-1.h5 minus moved-0.h5 .. moved-1.h5");
  EXPECT_EQ(json["between_methods"][0]["p"], json["between_methods"][0]["p_holm"]);
}

TEST_F(QuantizeCommand, AFolderForOtherPrograms) {
  const TemporaryFolder folder;
  const Outcome made = CallTare(
      {"quantize", GoldenFolder("diffllama-mha"), "--plan", "int4", "--format", "safetensors", "--out", folder / "m"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(folder.Names(), testing::ElementsAre("m"));
  EXPECT_EQ(CallTare({"inspect", folder / "m"}).exit_code, 0);
}

// What the line says is what lies there: bytes, types, and the tokenizer's files.
TEST_F(QuantizeCommand, ThePrintedLineDescribesTheResult) {
  const TemporaryFolder folder;
  const std::filesystem::path model = folder / "source";
  std::filesystem::copy(GoldenFolder("llama-gqa"), model);
  PutFile(model / "tokenizer.json", R"({"version": "1.0"})");
  const Outcome made =
      CallTare({"quantize", model, "--plan", "weights=int8/channel", "--format", "safetensors", "--out", folder / "m"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(GetFile(folder / "m" / "tokenizer.json"), R"({"version": "1.0"})");
  const int64_t bytes = CheckpointFiles(folder / "m").total_bytes();
  EXPECT_THAT(made.out, HasSubstr(SizeText(bytes) + " after: "));
  EXPECT_THAT(made.out, HasSubstr(" tensors in BF16, 21 of them rounded to nearest\n"));
  EXPECT_THAT(made.out, Not(HasSubstr("bits per weight")));
}

TEST_F(QuantizeCommand, DamageAndNonsenseAreRefused) {
  const TemporaryFolder folder;
  const std::string model = PairFolder("novels-standard"), file = folder / "q.h5";
  ASSERT_EQ(CallTare({"quantize", model, "--plan", "weights=int4/channel", "--out", file}).exit_code, 0);
  std::string bytes = GetFile(file);
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  PutFile(folder / "d.h5", bytes);
  const Outcome damaged = CallTare({"verify", folder / "d.h5"});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("damaged"));
  const Outcome group = CallTare({"quantize", model, "--plan", "weights=int4/group64", "--out", folder / "x.h5"});
  EXPECT_EQ(group.exit_code, 2);
  EXPECT_THAT(group.err, HasSubstr("group64 for rows of 688 weights"));
  EXPECT_THAT(group.err,
              HasSubstr("try group16, or a rule after it for these weights alone: down_proj.w=int4/group16"));
  EXPECT_EQ(CallTare({"quantize", model, "--plan", "weights=int4/channel"}).exit_code, 2);
  EXPECT_EQ(
      CallTare({"quantize", model, "--plan", "weights=int4/channel", "--out", file, "--method", "none"}).exit_code, 2);
  EXPECT_THAT(folder.Names(), testing::UnorderedElementsAre("q.h5", "d.h5"));
}

}  // namespace
}  // namespace tare::quantize_test
