// SPDX-License-Identifier: Apache-2.0
// No command writes over its inputs, or two outputs into one file, however they are spelled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare::files_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    fs::copy(PairFolder("novels-standard"), folder_ / "m");
    fs::create_directory_symlink(PairFolder("novels-differential"), folder_ / "m2");
    PutFile(folder_ / "text", "one two three four five six seven eight");
    PutFile(folder_ / "novel", GetFile(PairFolder("heldout.txt")).substr(0, 20000));
    fs::create_symlink(folder_ / "text", folder_ / "link");
    fs::create_hard_link(folder_ / "m/model.safetensors", folder_ / "weights");
  }
  std::string In(const std::string& name) const { return folder_ / name; }

  // Refused before anything runs, and the file is what it was.
  void Keeps(const std::string& file, const std::vector<std::string>& command, const std::string& message) {
    const std::string before = GetFile(folder_ / file);
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, 1) << testing::PrintToString(command);
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(GetFile(folder_ / file), before) << testing::PrintToString(command);
  }

  TemporaryFolder folder_;
};

TEST_F(FilesTest, NoOutputIsAnInput) {
  const std::string both = "is both an input and an output", inside = "is a file of the input";
  Keeps("m/model.safetensors",
        {"quantize", In("m"), "--plan", "weights=int8/channel", "--out", In("m/model.safetensors")}, inside);
  Keeps("m/model.safetensors", {"quantize", In("m"), "--plan", "weights=int8/channel", "--out", In("weights")}, inside);
  Keeps("text", {"eval", In("m"), "--tasks", "perplexity=" + In("text"), "--json", In("text")}, both);
  Keeps("text", {"eval", In("m"), "--tasks", "perplexity=" + In("text"), "--json", In("link")}, both);
  Keeps("text", {"eval", In("m"), "--tasks", "perplexity=" + In("text"), "--records", In("m/../text")}, both);
  Keeps("text", {"stats", In("m"), "--input", In("text"), "--csv", In("text")}, both);
  Keeps("text", {"stats", In("m"), "--input", In("text"), "--out", In("text")}, both);
  Keeps("text", {"dump", In("m"), "--input", In("text"), "--out", In("text")}, both);
  Keeps("m/config.json", {"inspect", In("m"), "--json", In("m/config.json")}, inside);
}

// Folders of results that a command reads, and files that a plan names.
TEST_F(FilesTest, ResultsThatAreReadAreInputsToo) {
  const std::string inside = "is a file of the input", tasks = "perplexity=" + In("text");
  fs::create_directory(folder_ / "d");
  for (const char* name : {"cells.jsonl", "compare.json", "table.csv"}) PutFile(folder_ / "d" / name, "kept");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"sweep", In("m"), "--bits", "16"}, {"attribute", In("m"), "--plan", "int4"}}) {
    std::vector<std::string> merge = command;
    merge.insert(merge.end(), {"--tasks", tasks, "--merge", In("d"), "--out", In("o"), "--json", In("d/cells.jsonl")});
    Keeps("d/cells.jsonl", merge, inside);
    merge.erase(merge.end() - 2, merge.end());
    merge.back() = In("d");
    Keeps("d/cells.jsonl", merge, inside);
  }
  Keeps("d/compare.json", {"compare", In("m"), In("m"), "--tasks", tasks, "--out", In("d"), "--also", In("d")}, inside);
  PutFile(folder_ / "grid", "-1 0 1");
  Keeps("grid", {"plan", "weights=grid(" + In("grid") + ")/channel", "--json", In("grid")},
        "is both an input and an output");
}

// Each name in the folders of parts and of sites, too, before anything runs.
TEST_F(FilesTest, WhatACommandKeepsForItselfIsNoInput) {
  const std::string both = "is both an input and an output";
  fs::create_directory(folder_ / "x.h5.parts");
  for (const std::string name : {"x.h5.parts/prepared.h5", "x.h5.parts/layer-0.h5"}) {
    ASSERT_EQ(CallTare({"quantize", In("m"), "--method", "hadamard", "--out", In(name)}).exit_code, 0);
    Keeps(name,
          {"quantize", In(name), "--plan", "weights=int4/channel", "--method", "gptq", "--calibrate", In("novel"),
           "--tokens", "64", "--out", In("x.h5")},
          both);
  }
  const std::vector<std::string> search{
      "search", In("m"),  "--input", In("novel"), "--tokens", "64", "--bits-per-weight",
      "6",      "--bits", "8,4",     "--out",     In("found")};
  const auto with = [](std::vector<std::string> command, std::vector<std::string> more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  Keeps("text", with(search, {"--tasks", "perplexity=" + In("text"), "--out-model", In("text")}), both);
  ASSERT_EQ(CallTare(search).exit_code, 0);
  Keeps("found/search.json", with(search, {"--out-model", In("found/search.json")}), "two outputs of one command");
  std::vector<std::string> merging = search;
  merging.back() = In("f2");
  Keeps("found/cells.jsonl", with(merging, {"--merge", In("found"), "--out-model", In("found/cells.jsonl")}),
        "is a file of the input");
  const std::vector<std::string> compare{
      "compare",  In("m"), In("m2"), "--bits", "4", "--tasks", "perplexity=" + In("novel"),
      "--tokens", "64",    "--out",  In("cmp")};
  ASSERT_EQ(CallTare(compare).exit_code, 0);
  for (const std::string name :
       {"cells.jsonl", "outliers.jsonl", "attribution-A/cells.jsonl", "attribution-B/attribution.csv"})
    Keeps(
        "cmp/" + name, with(compare, {"--json", In("cmp/" + name)}),
        name.starts_with("attribution") ? "got a file that this command did not write" : "two outputs of one command");
  EXPECT_EQ(CallTare(compare).exit_code, 0);
}

// Names that were temporary in earlier versions are a user's like any other.
TEST_F(FilesTest, NothingIsRemovedThatThisProgramDidNotMake) {
  fs::copy(folder_ / "m", folder_ / "x.folder.tmp");
  const std::string weights = GetFile(folder_ / "m/model.safetensors");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"convert", In("x.folder.tmp"), "--to", "llama", "--out", In("x")},
        {"quantize", In("m"), "--plan", "int8", "--format", "safetensors", "--out", In("x")}}) {
    PutFile(folder_ / "x.quantized.tmp", "kept");
    EXPECT_EQ(CallTare(command).exit_code, 0);
    EXPECT_TRUE(fs::exists(folder_ / "x/config.json"));
    EXPECT_EQ(GetFile(folder_ / "x.folder.tmp/model.safetensors"), weights);
    EXPECT_EQ(GetFile(folder_ / "x.quantized.tmp"), "kept");
    fs::remove_all(folder_ / "x");
  }
  PutFile(folder_ / "s.h5.part", "kept");
  const std::vector<std::string> stats{"stats", In("m"), "--input", In("text"), "--out", In("s.h5")};
  Keeps("s.h5.part", stats, "s.h5.part: got a file that this command did not write");
  fs::create_directory(folder_ / "q.h5.parts");
  PutFile(folder_ / "q.h5.parts/layer-0.h5", "kept");
  Keeps("q.h5.parts/layer-0.h5",
        {"quantize", In("m"), "--plan", "weights=int4/channel", "--method", "gptq", "--calibrate", In("novel"),
         "--tokens", "100", "--out", In("q.h5")},
        "layer-0.h5: got a file that is no part of a job");
}

// Once its first cell is there, the folder is moved away and a link to another takes its place.
TEST_F(FilesTest, AFolderThatIsSwappedForALinkWhileRunning) {
  fs::create_directory(folder_ / "mine");
  const std::vector<std::string> names{"cells.jsonl", "outliers.jsonl", "table.csv", "table.json", "compare.json"};
  for (const std::string& name : names) PutFile(folder_ / "mine" / name, "kept");
  RunningCommand command(TareCommand({"compare", In("m"), In("m2"), "--bits", "4", "--tasks",
                                      "perplexity=" + In("novel"), "--tokens", "128", "--out", In("out")}));
  command.SignalOnce(
      [&] {
        if (!fs::exists(folder_ / "out/cells.jsonl")) return false;
        fs::rename(folder_ / "out", folder_ / "moved");
        fs::create_directory_symlink(folder_ / "mine", folder_ / "out");
        return true;
      },
      SIGCONT);  // which does nothing
  const Outcome outcome = command.Wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const std::string& name : names) {
    EXPECT_EQ(GetFile(folder_ / "mine" / name), "kept") << name;
    EXPECT_TRUE(fs::exists(folder_ / "moved" / name)) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "mine"), {}), std::ssize(names));
  EXPECT_TRUE(fs::exists(folder_ / "moved/attribution-B/attribution.json"));
}

TEST_F(FilesTest, NoOutputIsWrittenTwice) {
  Keeps("text", {"stats", In("m"), "--input", In("text"), "--csv", In("a"), "--json", In("./a")}, "two outputs");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  Keeps("text", {"stats", "m", "--input", "text", "--csv", "a", "--json", "./a"}, "two outputs");
  fs::current_path(before);
}

TEST_F(FilesTest, NoFileHasTheNameOfANewFolder) {
  Keeps("text", {"convert", In("m"), "--to", "llama", "--out", In("made/"), "--json", In("./made")}, "two outputs");
  EXPECT_FALSE(fs::exists(folder_ / "made"));
}

TEST_F(FilesTest, NoOutputHasAnEmptyName) {
  const std::vector<std::string> commands[] = {{"convert", In("m"), "--to", "llama", "--out", ""},
                                               {"convert", In("m"), "--to", "gguf", "--out", ""},
                                               {"quantize", In("m"), "--plan", "weights=int8/channel", "--out", ""}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome refused = CallTare(command);
    EXPECT_EQ(refused.exit_code, 2) << command[0];
    EXPECT_THAT(refused.err, HasSubstr("--out: got '', expected a name")) << command[0];
  }
}

TEST_F(FilesTest, OneCommandWritesAFileAtATime) {
  const std::vector<std::string> command = {"stats",    In("m"),   "--input", PairFolder("heldout.txt"),
                                            "--tokens", "100000",  "--sites", "layer_out",
                                            "--out",    In("s.h5")};
  RunningCommand first(TareCommand(command));
  Outcome second;
  first.SignalOnce(
      [&] {
        const auto entries = fs::directory_iterator(folder_.path());
        const auto claims = std::ranges::any_of(entries, [](const auto& e) { return e.path().extension() == ".tmp"; });
        if (claims) second = StartTare(command);
        return claims;
      },
      SIGKILL);
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("s.h5: process " + std::to_string(first.process()) + " is writing it"));
  EXPECT_EQ(first.Wait().exit_code, -SIGKILL);
  std::vector<std::string> again = command;
  again[5] = "100";
  again.push_back("--fresh");
  EXPECT_EQ(CallTare(again).exit_code, 0);
  for (const auto& entry : fs::directory_iterator(folder_.path())) EXPECT_NE(entry.path().extension(), ".tmp");
}

TEST_F(FilesTest, WeightsThatBecomeShorterEndTheCommandWithAMessage) {
  const fs::path weights = folder_ / "m/model.safetensors";
  RunningCommand command(TareCommand({"stats", In("m"), "--input", PairFolder("heldout.txt"), "--tokens", "100000",
                                      "--sites", "layer_out", "--checkpoint", "1", "--out", In("s.h5")}));
  command.SignalOnce(
      [&] {
        if (!fs::exists(folder_ / "s.h5.part")) return false;
        fs::resize_file(weights, 4096);
        return true;
      },
      SIGCONT);  // which does nothing
  const Outcome outcome = command.Wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("model.safetensors: became shorter while it was read"));
}

}  // namespace
}  // namespace tare::files_test
