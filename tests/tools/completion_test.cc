// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call_tare.h"

namespace tare::completion_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using Words = std::vector<std::string>;

// What the program offers after these words, the last of them begun.
Words Offered(const Words& words) {
  Words command{"completion", "bash", "--"};
  command.insert(command.end(), words.begin(), words.end());
  const Outcome outcome = CallTare(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  Words offered;
  for (std::string line; std::getline(lines, line);) offered.push_back(line);
  return offered;
}

TEST(CompletionTest, CommandsAndTheirOptions) {
  EXPECT_THAT(Offered({"ins"}), ElementsAre("inspect"));
  EXPECT_THAT(Offered({"bench", "dec"}), ElementsAre("decode"));
  EXPECT_THAT(Offered({"eval", "MODEL", "--pla"}), ElementsAre("--plan"));
  EXPECT_THAT(Offered({"help", "meth"}), ElementsAre("methods"));
  EXPECT_THAT(Offered({"eval", "--tasks", "choice=a.jsonl", "MODEL", "--cac"}), ElementsAre("--cache"));
  EXPECT_THAT(Offered({"inspect", "M"}), IsEmpty());  // files, by the shell
  EXPECT_THAT(Offered({"eval", ""}), IsEmpty());      // a MODEL comes first
  EXPECT_THAT(Offered({"eval", "MODEL", ""}), Contains("--tasks"));
  EXPECT_THAT(Offered({""}), Contains("sweep"));
}

TEST(CompletionTest, ValuesFromTheTables) {
  EXPECT_THAT(Offered({"eval", "M", "--math", ""}), ElementsAre("f32", "bf16"));
  EXPECT_THAT(Offered({"eval", "M", "--math=b"}), ElementsAre("--math=bf16"));
  EXPECT_THAT(Offered({"quantize", "M", "--format", "c"}), ElementsAre("compressed-tensors"));
  EXPECT_THAT(Offered({"quantize", "M", "--method", "awq+gptq"}), ElementsAre("awq+gptq"));
  EXPECT_THAT(Offered({"plot", "S.h5", "--figure", "la"}), ElementsAre("largest"));
  EXPECT_THAT(Offered({"eval", "M", "--tasks", "perp"}), ElementsAre("perplexity="));
  EXPECT_THAT(Offered({"eval", "M", "--tasks", "perplexity=a.txt,ch"}), ElementsAre("perplexity=a.txt,choice="));
  EXPECT_THAT(Offered({"eval", "M", "--tasks", "perplexity=a"}), IsEmpty());  // a file
  EXPECT_THAT(Offered({"sweep", "M", "--granularity", "row,te"}), ElementsAre("row,tensor"));
  EXPECT_THAT(Offered({"sweep", "M", "--plans", "f32,sage2p"}), ElementsAre("f32,sage2pp"));
  EXPECT_THAT(Offered({"sweep", "M", "--site", "attn_l"}), ElementsAre("attn_logits"));
  EXPECT_THAT(Offered({"sweep", "M", "--formats", "int4,mxfp4"}), ElementsAre("int4,mxfp4"));
  EXPECT_THAT(Offered({"bench", "attention", "--mask", "causal,f"}), ElementsAre("causal,full"));
  EXPECT_THAT(Offered({"convert", "M", "--to", "diff_"}), Contains("diff_v1"));
  EXPECT_THAT(Offered({"convert", "M", "--to", "gg"}), ElementsAre("gguf"));
  EXPECT_THAT(Offered({"completion", "f"}), ElementsAre("fish"));
}

// Each place of a rule offers what the site takes.
TEST(CompletionTest, Rules) {
  EXPECT_THAT(Offered({"eval", "M", "--plan", "attn_l"}), ElementsAre("attn_logits="));
  EXPECT_THAT(Offered({"eval", "M", "--plan", "int"}), ElementsAre("int8", "int6", "int4", "int-flash"));
  EXPECT_THAT(Offered({"eval", "M", "--plan", "weights=int4/group64,q=int4/to"}),
              ElementsAre("weights=int4/group64,q=int4/token", "weights=int4/group64,q=int4/tokens"));
  EXPECT_THAT(Offered({"eval", "M", "--plan", "weights[l0-3]=int4/gr"}), ElementsAre("weights[l0-3]=int4/group"));
  EXPECT_THAT(Offered({"eval", "M", "--plan", "weights=mxfp4"}), ElementsAre("weights=mxfp4"));
  EXPECT_THAT(Offered({"eval", "M", "--plan", "probs="}), Contains("probs=u8/"));
  EXPECT_THAT(Offered({"eval", "M", "--plan", "probs="}), Not(Contains("probs=int8/")));
  EXPECT_THAT(Offered({"eval", "M", "--plan", "weights=int4/group64+ze"}), ElementsAre("weights=int4/group64+zero"));
  EXPECT_THAT(Offered({"plan", "attn_l"}), ElementsAre("attn_logits="));
  EXPECT_THAT(Offered({"generate", "M", "--cache", "cache_k=int8/token,ke"}), ElementsAre("cache_k=int8/token,keep="));
  EXPECT_THAT(Offered({"generate", "M", "--cache", "keep=h"}), ElementsAre("keep=h2o/"));
  EXPECT_THAT(Offered({"eval", "M", "--plan", "nothing=i"}), IsEmpty());
}

// bash has cut the line at = and : too, and takes its last word alone for what is completed.
std::string InBash(const std::string& line, const std::string& words) {
  const TemporaryFolder folder;
  PutFile(folder / "tare.bash", CallTare({"completion", "bash"}).out);
  PutFile(folder / "ask.bash", "export PATH=" TARE_BINARY_DIR ":$PATH\nsource '" + (folder / "tare.bash").string() +
                                   "'\nCOMP_LINE='" + line + "'\nCOMP_POINT=${#COMP_LINE}\nCOMP_WORDS=(" + words +
                                   ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tare\necho \"${COMPREPLY[*]}\" > '" +
                                   (folder / "out").string() + "'\n");
  EXPECT_EQ(std::system(("bash '" + (folder / "ask.bash").string() + "'").c_str()), 0);
  return GetFile(folder / "out");
}

TEST(CompletionTest, Bash) {
  EXPECT_EQ(InBash("tare ins", "tare ins"), "inspect\n");
  EXPECT_EQ(InBash("tare eval M --math ", "tare eval M --math ''"), "f32 bf16\n");
  EXPECT_EQ(InBash("tare eval M --plan q=int4/to", "tare eval M --plan q = int4/to"), "int4/token int4/tokens\n");
  EXPECT_EQ(InBash("tare eval M --tasks perplexity=a.txt,ch", "tare eval M --tasks perplexity = a.txt,ch"),
            "a.txt,choice=\n");
  EXPECT_EQ(InBash("tare quantize M --format=", "tare quantize M --format ="), "h5 safetensors compressed-tensors\n");
  EXPECT_EQ(InBash("tare inspect M", "tare inspect M"), "\n");
}

// Where these shells are installed, they at least read their scripts.
TEST(CompletionTest, OtherShells) {
  EXPECT_THAT(CallTare({"completion", "zsh"}).out, StartsWith("#compdef tare\n"));
  EXPECT_THAT(CallTare({"completion", "fish"}).out, StartsWith("function __tare\n"));
  EXPECT_EQ(CallTare({"completion", "tcsh"}).exit_code, 2);
  for (const std::string shell : {"zsh", "fish"}) {
    const TemporaryFolder folder;
    PutFile(folder / "script", CallTare({"completion", shell}).out);
    const std::string check = "command -v " + shell + " >/dev/null || exit 0; " + shell + " -n ";
    EXPECT_EQ(std::system((check + (folder / "script").string()).c_str()), 0) << shell;
  }
}

}  // namespace
}  // namespace tare::completion_test
