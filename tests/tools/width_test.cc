// SPDX-License-Identifier: Apache-2.0
// What every command prints for small models fits 80 columns. Only a line's longest word (a path, a plan) may exceed
// them, and an error is one line, so that it can be searched for.
// In the released build alone, for it runs every bench: sanitized, these take minutes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::width_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr size_t kColumns = 80;

// The line without paths and plans, words of the user's choice.
size_t WidthOf(const std::string& line) {
  std::istringstream words(line);
  size_t width = line.size();
  for (std::string word; words >> word;) {
    if (word.contains('/') || word.contains('=')) width -= std::min(width, word.size());
  }
  return width;
}

std::vector<std::string> TooWide(const std::string& text) {
  std::vector<std::string> wide;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > kColumns && WidthOf(line) > kColumns / 2) wide.push_back(line);
  }
  return wide;
}

class WidthTest : public testing::Test {
 protected:
  WidthTest() : before_(fs::current_path()) { fs::current_path(folder_.path()); }
  ~WidthTest() override { fs::current_path(before_); }

  void Fits(const Words& command) {
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, 0) << testing::PrintToString(command) << outcome.err;
    EXPECT_THAT(TooWide(outcome.out + outcome.err), testing::IsEmpty()) << testing::PrintToString(command);
    ran_.insert(command[0] == "bench" || command[0] == "make" ? command[0] + " " + command[1] : command[0]);
  }

  const fs::path before_;
  TemporaryFolder folder_;
  std::set<std::string> ran_;
};

TEST(WidthOfTest, LongLinesAreSeenAndNamesForgiven) {
  EXPECT_EQ(TooWide(std::string(81, 'x')).size(), 1u);
  EXPECT_TRUE(TooWide(std::string(80, 'x') + "\nout/" + std::string(90, 'x') + ": whole").empty());
}

TEST_F(WidthTest, EveryCommandsOutputFits) {
  const std::string llama = GoldenFolder("llama-mha"), diff = GoldenFolder("diffllama-mha"),
                    ids = llama + "/expected.safetensors", pair = TARE_SOURCE_DIR "/experiments/pair",
                    small = pair + "/novels-standard", plan = "q=int4/token,k=int4/token";
  PutFile("text", "It was a bright cold day in April, and the clocks were striking thirteen.");
  Fits({"help"});
  for (const char* topic : {"model", "plan", "tasks", "methods", "cache"}) Fits({"help", topic});
  Fits({"inspect", diff});
  Fits({"plan", "weights=int4/group48," + plan, diff});
  Fits({"plan", "probs=u8/row,attn_logits=int4/head,attn_logits[l0]=f32", llama});
  Fits({"stats", llama, diff, "--input", ids});
  Fits({"stats", diff, "--input", ids, "--formats", "int8/row,int4/group16", "--out", "S.h5"});
  Fits({"stats", "show", "S.h5"});
  Fits({"stats", "diff", "S.h5", "S.h5"});
  Fits({"dump", llama, "--input", ids, "--sites", "logits", "--out", "D.h5"});
  Fits({"quantize", diff, "--plan", "weights=int4/group16,lm_head.w=int8/channel", "--out", "Q.h5"});
  Fits({"quantize", diff, "--plan", "weights=int4/group16", "--format", "safetensors", "--out", "Q"});
  Fits({"inspect", "Q.h5"});
  Fits({"verify", "Q.h5"});
  const std::string tasks = "perplexity=" + ids + ",divergence=" + ids;
  Fits({"eval", diff, "--plan", plan, "--tasks", tasks});
  Fits({"sweep", llama, diff, "--bits", "16,8,4", "--granularity", "row,tensor", "--tasks", tasks, "--out", "sweep"});
  Fits({"compare", llama, diff, "--bits", "8,4", "--tasks", "perplexity=" + ids, "--out", "compared"});
  const std::string logits = TARE_SOURCE_DIR "/tests/data/predictions/kld_base.bin";
  Fits({"judge", logits, logits});
  Fits({"attribute", diff, "--plan", plan, "--by", "site", "--tasks", "divergence=" + ids, "--out", "attributed"});
  Fits({"maps", diff, "--plan", plan, "--input", ids});
  Fits({"levels", diff, "--plan", "k=normal1/channel+mean,v=normal1/token+mean", "--calibrate", ids});
  Fits({"levels", diff, "--plan", "v=normal4/token+mean", "--calibrate", ids, "--out", "levels.txt"});
  Fits({"search", diff, "--input", ids, "--within", "1000", "--plan", "q=int8/token", "--plan", "q=int4/token", "--out",
        "searched"});
  Fits({"convert", diff, "--to", "diff_v1", "--out", "converted"});
  Fits({"report", "sweep", "attributed", "searched", "--out", "R.html"});
  Fits({"plot", "sweep", "--figure", "bits", "--out", "bits.svg"});
  Fits({"tokenize", small, "--input", "text", "--out", "ids.jsonl"});
  Fits({"generate", small, "--prompt", "It was", "--tokens", "4", "--cache", "cache_k=int8/token,cache_v=int8/token"});
  PutFile("novel", GetFile(pair + "/heldout.txt").substr(0, 20000));
  Fits({"make", "needles", small, "--text", "novel", "--lengths", "128", "--samples", "1", "--out", "n"});
  Fits({"probe", "n"});
  const Words shape{"--n", "64", "--heads", "2", "--d", "64", "--repetitions", "1"};
  Words attention{"bench", "attention", "--family",
                  "v1",    "--plan",    "q=int8/token,k=int8/token,difference=int8/block256,v=int8/block256.channel"},
      decode{"bench", "decode", "--family", "v1"};
  attention.insert(attention.end(), shape.begin(), shape.end());
  decode.insert(decode.end(), shape.begin(), shape.end());
  Fits(attention);
  Fits(decode);
  Fits({"bench", "linear", "--plan", "weights=int4/group64,linear_in=int8/token", "--rows", "16", "--out", "128",
        "--in", "128", "--repetitions", "1"});
  Fits({"bench",        "forward", "--hidden", "32", "--heads",  "2", "--ffn",         "48", "--layers", "1",
        "--vocabulary", "32",      "--batch",  "1",  "--tokens", "8", "--repetitions", "1",  "--family", "diffllama"});
  std::istringstream manual(CallTare({"manual"}).out);
  for (std::string line; std::getline(manual, line);) {
    const std::string words = line.starts_with(".SS tare ") ? line.substr(9) : "";
    const bool part = words.contains(' ') && !words.starts_with("bench");  // of stats and make: those above
    const bool text = words == "manual" || words == "completion" || words == "bench" || words == "make";
    EXPECT_TRUE(words.empty() || part || text || ran_.contains(words)) << words << " is not in this list";
  }
}

}  // namespace
}  // namespace tare::width_test
