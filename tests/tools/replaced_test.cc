// SPDX-License-Identifier: Apache-2.0
// An output replaces only what the same command wrote, told by how the file begins: every kind of output is written
// twice, and refused where it would replace a page of notes or another command's output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/report_material.h"

namespace tare::replaced_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Command = std::vector<std::string>;

// A page that quotes what the commands write.
constexpr const char* kNotes =
    "Notes of mine: {\"schema\": \"tare.eval/1\"}, k[l0]=grid(1 2), <svg svg.marks:root{ tare.stats.file/2 "
    "model,site\n";

class ReplacedTest : public testing::Test {
 protected:
  ReplacedTest() : before_(fs::current_path()) {
    fs::current_path(folder_.path());
    PutManyIds("ids.safetensors", 4, 40);
    PutFile("text", GetFile(PairFolder("heldout.txt")).substr(0, 20000));
    PutFile("o.json", OutliersOf("m", 20, 60).dump());
    PutFile("items.jsonl", R"({"ctx":"One two","endings":[" three"," four"],"label":0,"depth":0})"
                           "\n");
  }
  ~ReplacedTest() override { fs::current_path(before_); }

  static Outcome With(Command command, const Command& more) {
    command.insert(command.end(), more.begin(), more.end());
    return CallTare(command);
  }

  const std::string m_ = GoldenFolder("llama-gqa"), pair_ = PairFolder("novels-standard"),
                    logits_ = TARE_SOURCE_DIR "/tests/data/predictions/kld_base.bin";
  const Command stats_{"stats", m_, "--input", "ids.safetensors", "--sites", "q"};
  // Without the output's name, which ends them.
  const std::vector<Command> commands_ = {
      {"inspect", m_, "--json"},
      {"plan", "int8", "--json"},
      {"stats", m_, "--input", "ids.safetensors", "--json"},
      {"stats", m_, GoldenFolder("diffllama-gqa"), "--input", "ids.safetensors", "--json"},
      {"stats", m_, "--input", "ids.safetensors", "--csv"},
      {"stats", m_, "--input", "ids.safetensors", "--sites", "q", "--out"},
      {"stats", "show", "s.h5", "--json"},
      {"stats", "show", "s.h5", "--site", "q", "--json"},
      {"stats", "show", "s.h5", "--csv"},
      {"stats", "diff", "s.h5", "s.h5", "--json"},
      {"stats", "merge", "s.h5", "--out"},
      {"verify", "s.h5", "--json"},
      {"dump", m_, "--input", "ids.safetensors", "--sites", "logits", "--out"},
      {"eval", m_, "--tasks", "perplexity=ids.safetensors", "--json"},
      {"eval", pair_, "--tasks", "choice=items.jsonl", "--records"},
      {"eval", pair_, "--tasks", "choice=items.jsonl", "--by", "depth", "--csv"},
      {"judge", logits_, logits_, "--json"},
      {"maps", m_, "--plan", "q=int4/token", "--input", "ids.safetensors", "--json"},
      {"maps", m_, "--plan", "q=int4/token", "--input", "ids.safetensors", "--csv"},
      {"levels", pair_, "--plan", "k=normal3/channel+mean", "--calibrate", "text", "--window", "32", "--tokens", "64",
       "--out"},
      {"levels", pair_, "--plan", "k=normal3/channel+mean", "--calibrate", "text", "--window", "32", "--tokens", "64",
       "--json"},
      {"quantize", m_, "--plan", "weights=int8/channel", "--out"},
      {"quantize", m_, "--plan", "weights=int8/channel", "--out", "q.h5", "--json"},
      {"convert", pair_, "--to", "gguf", "--out"},
      {"convert", pair_, "--to", "gguf", "--out", "c.gguf", "--json"},
      {"sweep", m_, "--bits", "16", "--tasks", "perplexity=ids.safetensors", "--out", "sw", "--json"},
      {"attribute", m_, "--plan", "q=int4/token,k=int4/token", "--tasks", "perplexity=ids.safetensors", "--out", "at",
       "--json"},
      {"search", m_, "--input", "ids.safetensors", "--bits-per-weight", "7", "--bits", "8,4", "--out", "se", "--json"},
      {"search", m_, "--input", "ids.safetensors", "--bits-per-weight", "7", "--bits", "8,4", "--out", "se",
       "--out-model"},
      {"tokenize", pair_, "--input", "o.json", "--out"},
      {"make", "shots", "--text", "text", "--shots", "8", "--samples", "2", "--out"},
      {"make", "shots", "--text", "text", "--shots", "8", "--samples", "2", "--answers", "targets", "--out"},
      {"probe", "items.jsonl", "--json"},
      {"generate", pair_, "--prompt", "It was", "--tokens", "2", "--json"},
      {"bench", "linear", "--plan", "weights=int8/channel,linear_in=int8/token", "--rows", "1", "--in", "64", "--out",
       "64", "--repetitions", "1", "--json"},
      {"report", "o.json", "--out"}};
  const Command plot_{"plot", "o.json", "--figure", "largest", "--out", "f.svg"};
  TemporaryFolder folder_;

 private:
  const fs::path before_;
};

TEST_F(ReplacedTest, EachCommandReplacesItsOwnOutputAndNoOther) {
  ASSERT_EQ(With(stats_, {"--out", "s.h5"}).exit_code, 0);
  PutFile("notes", kNotes);
  PutFile("empty", "");
  ASSERT_EQ(CallTare({"plan", "int8", "--json", "plan.json"}).exit_code, 0);
  const std::string plan = GetFile("plan.json");
  for (size_t i = 0; i < commands_.size(); ++i) {
    const Command& command = commands_[i];
    SCOPED_TRACE(testing::PrintToString(command));
    const std::string own = "own" + std::to_string(i);
    EXPECT_EQ(With(command, {own}).exit_code, 0);
    const Outcome again = With(command, {own});
    EXPECT_EQ(again.exit_code, 0) << again.err;
    const bool says = command.back() == "--out" && command[0] != "tokenize" && command[0] != "levels";
    if (says) {
      EXPECT_THAT(again.out, HasSubstr(own + " (replaced)"));
    }
    for (const auto& [other, text] : {std::pair<std::string, std::string>("notes", kNotes), {"plan.json", plan}}) {
      if (command[0] == "plan" && other == "plan.json") continue;
      const Outcome refused = With(command, {other});
      EXPECT_EQ(refused.exit_code, 1);
      EXPECT_THAT(refused.err,
                  AllOf(HasSubstr(other + ": got a file that this command did not write"), HasSubstr("or --force")));
      EXPECT_EQ(GetFile(other), text);
    }
  }
  EXPECT_EQ(With(commands_[0], {"empty"}).exit_code, 0);
  EXPECT_EQ(With(commands_[0], {"notes", "--force"}).exit_code, 0);
  EXPECT_THAT(GetFile("notes"), HasSubstr("tare.inspect/1"));
  EXPECT_THAT(GetFile("notes"), Not(HasSubstr("--force")));
}

TEST_F(ReplacedTest, FiguresAreToldByTheirOwnStyle) {
  ASSERT_EQ(CallTare(plot_).exit_code, 0);
  EXPECT_THAT(CallTare(plot_).out, HasSubstr("f.svg (replaced)"));
  PutFile("f.svg", "<svg xmlns='http://www.w3.org/2000/svg'><title>mine</title></svg>");
  EXPECT_EQ(CallTare(plot_).exit_code, 1);
  // As Cairo begins a PDF; the four bytes above 127 are its own, and then Tare's.
  PutFile("rsvg-convert", "#!/bin/sh\nprintf '%%PDF-1.7\\n%%\\265\\355\\256\\373\\n1 0 obj' >$2\n");
  fs::permissions("rsvg-convert", fs::perms::owner_all);
  Command pdf = plot_;
  pdf.back() = "f.pdf";
  PutFile("f.pdf", "%PDF-1.7\n%\xB5\xED\xAE\xFB\n1 0 obj");
  const CommandSetting with{.environment = {"PATH=" + folder_.path().string() + ":/usr/bin:/bin"}};
  EXPECT_EQ(StartTare(pdf, with).exit_code, 1);
  fs::remove("f.pdf");
  EXPECT_EQ(StartTare(pdf, with).exit_code, 0);
  EXPECT_EQ(GetFile("f.pdf").size(), 22u);
  EXPECT_THAT(StartTare(pdf, with).out, HasSubstr("f.pdf (replaced)"));
}

// Tables of a run folder have no marker: its runs are one.
TEST_F(ReplacedTest, TablesOfAFolderWithoutRunsAreTheUsers) {
  fs::create_directory("mine");
  PutFile("mine/table.csv", "a,b\n");
  const Command sweep{"sweep", m_, "--bits", "16", "--tasks", "perplexity=ids.safetensors", "--out", "mine"};
  EXPECT_THAT(CallTare(sweep).err, HasSubstr("mine/table.csv: got a file that this command did not write"));
  EXPECT_EQ(GetFile("mine/table.csv"), "a,b\n");
  EXPECT_EQ(With(sweep, {"--force"}).exit_code, 0);
  EXPECT_THAT(CallTare(sweep).err, HasSubstr("mine: continues from 1 of 1 runs of llama-gqa"));
  const Outcome fresh = With(sweep, {"--fresh"});
  EXPECT_EQ(fresh.exit_code, 0);
  EXPECT_THAT(fresh.err, Not(HasSubstr("continues")));
}

}  // namespace
}  // namespace tare::replaced_test
