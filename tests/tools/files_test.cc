// SPDX-License-Identifier: Apache-2.0
// No command writes over what it reads, and no two of its outputs into one file, however they are spelled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    fs::copy(PairFolder("novels-standard"), folder_ / "m");
    PutFile(folder_ / "text", "one two three four five six seven eight");
    fs::create_symlink(folder_ / "text", folder_ / "link");
    fs::create_hard_link(folder_ / "m/model.safetensors", folder_ / "weights");
  }
  std::string In(const std::string& name) const { return folder_ / name; }

  // Refused before anything runs, and the file is what it was.
  void Keeps(const std::string& file, const std::vector<std::string>& command, const std::string& message) {
    const std::string before = GetFile(folder_ / file);
    const Outcome outcome = RunTare(command);
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

TEST_F(FilesTest, NoOutputIsWrittenTwice) {
  Keeps("text", {"stats", In("m"), "--input", In("text"), "--csv", In("a"), "--json", In("./a")}, "two outputs");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  Keeps("text", {"stats", "m", "--input", "text", "--csv", "a", "--json", "./a"}, "two outputs");
  fs::current_path(before);
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
        if (claims) second = RunTare(command);
        return claims;
      },
      SIGKILL);
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("s.h5: process " + std::to_string(first.process()) + " is writing it"));
  EXPECT_EQ(first.Wait().exit_code, -SIGKILL);
  std::vector<std::string> again = command;
  again[5] = "100";
  EXPECT_EQ(RunTare(again).exit_code, 0);
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
}  // namespace tare
