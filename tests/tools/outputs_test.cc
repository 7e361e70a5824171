// SPDX-License-Identifier: Apache-2.0
// An output that cannot be written is refused before anything is read: no command in the table has an existing model or
// input, so any earlier work would be refused for those instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/file/output_folder.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::outputs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Command = std::vector<std::string>;

class OutputsTest : public testing::Test {
 protected:
  OutputsTest() : before_(fs::current_path()) {
    fs::current_path(folder_.path());
    fs::create_directory("folder");
    PutFile("file", "kept");
    PutFile("text", "one two three");
    fs::create_symlink("none/x", "broken");
    fs::create_symlink("circle", "circle");
  }
  ~OutputsTest() override { fs::current_path(before_); }

  // The command with each of its outputs in turn being `output`.
  void Refuses(const std::vector<Command>& commands, const std::string& output, const std::string& message) {
    for (Command command : commands) {
      command.push_back(output);
      const Outcome outcome = CallTare(command);
      EXPECT_EQ(outcome.exit_code, 1) << testing::PrintToString(command);
      EXPECT_THAT(outcome.err, AllOf(testing::StartsWith("tare: " + output.substr(0, output.find_last_not_of('/') + 1)),
                                     HasSubstr(message)))
          << testing::PrintToString(command);
    }
    EXPECT_EQ(GetFile("file"), "kept");
    EXPECT_EQ(std::distance(fs::directory_iterator("."), {}), 5);
    EXPECT_TRUE(fs::is_empty("folder"));
  }

  const std::vector<Command> files_ = {
      {"quantize", "gone", "--plan", "weights=int8/channel", "--out"},
      {"quantize", "gone", "--plan", "weights=int8/channel", "--method", "gptq", "--calibrate", "text", "--out"},
      {"quantize", "gone", "--plan", "", "--method", "hadamard", "--out"},
      {"quantize", "gone", "--plan", "weights=int4/channel", "--method", "hadamard+rtn+quantease", "--calibrate",
       "text", "--out"},
      {"quantize", "gone", "--plan", "weights=int8/channel", "--out", "q.h5", "--json"},
      {"quantize", "gone", "--plan", "", "--format", "safetensors", "--out", "q", "--json"},
      {"stats", "gone", "--input", "text", "--out"},
      {"stats", "gone", "--input", "text", "--csv"},
      {"stats", "gone", "--input", "text", "--json"},
      {"stats", "show", "gone", "--csv"},
      {"stats", "show", "gone", "--json"},
      {"stats", "diff", "gone", "gone", "--json"},
      {"stats", "merge", "gone", "gone", "--out"},
      {"dump", "gone", "--input", "text", "--out"},
      {"eval", "gone", "--tasks", "perplexity=text", "--json"},
      {"eval", "gone", "--tasks", "perplexity=text", "--records"},
      {"sweep", "gone", "--tasks", "perplexity=text", "--out", "s", "--json"},
      {"judge", "gone", "gone", "--json"},
      {"maps", "gone", "--plan", "int4", "--input", "text", "--json"},
      {"levels", "gone", "--plan", "v=normal2/token+mean", "--calibrate", "text", "--json"},
      {"levels", "gone", "--plan", "v=normal2/token+mean", "--calibrate", "text", "--out"},
      {"tokenize", "gone", "--input", "text", "--out"},
      {"make", "shots", "--text", "text", "--out"},
      {"convert", "gone", "--to", "gguf", "--out"},
      {"generate", "gone", "--prompt", "It was", "--json"},
      {"report", "gone", "--out"},
      {"plan", "gone", "--json"},
      {"inspect", "gone", "--json"},
      {"verify", "gone", "--json"},
      {"bench", "forward", "--family", "gone", "--json"},
      {"bench", "linear", "--plan", "weights=gone", "--json"},
      {"bench", "attention", "--plan", "q=gone", "--json"},
      {"bench", "decode", "--cache", "cache_k=gone", "--json"}};
  const std::vector<Command> folders_ = {
      {"sweep", "gone", "--tasks", "perplexity=text", "--out"},
      {"compare", "gone", "gone", "--tasks", "perplexity=text", "--out"},
      {"attribute", "gone", "--plan", "int4", "--tasks", "perplexity=text", "--out"},
      {"quantize", "gone", "--plan", "weights=int8/channel", "--format", "safetensors", "--out"},
      {"quantize", "gone", "--plan", "", "--method", "hadamard", "--format", "safetensors", "--out"}};

 private:
  const fs::path before_;
  TemporaryFolder folder_;
};

TEST_F(OutputsTest, FilesThatCannotBeWrittenAreRefusedFirst) {
  const std::vector<Command> some(files_.begin(), files_.begin() + 2);  // names are looked at in one place
  Refuses(files_, "folder", "a folder or device has that name");
  Refuses(some, "folder/", "got a folder, expected the name of a file");
  Refuses(some, "none/", "got a folder, expected the name of a file");
  Refuses(files_, "none/x", "no folder none; try mkdir -p first");
  Refuses(some, "file/x", "file is not a folder");
  Refuses(some, "/dev/null", "a folder or device has that name");
  Refuses(some, "circle", "the links form a circle");
  Refuses(some, std::string(300, 'x'), "cannot write: File name too long");
  Refuses(some, "/sys/x", "cannot write: ");  // where root may not write either
}

TEST_F(OutputsTest, FilesThatTheCommandDidNotWriteAreRefusedFirst) {
  Refuses(files_, "file", "got a file that this command did not write, expected none or its own; try another name, or");
}

TEST_F(OutputsTest, FoldersThatCannotBeMadeAreRefusedFirst) {
  Refuses(folders_, "none/x", "no folder none; try mkdir -p first");
  Refuses(folders_, "none/x/", "no folder none; try mkdir -p first");
  Refuses(folders_, "file", "a file, device or broken link has that name, expected a folder");
  Refuses(folders_, "file/x", "file is not a folder");
  Refuses(folders_, "/dev/null", "a file, device or broken link has that name");
  Refuses(folders_, "broken", "a file, device or broken link has that name");
  Refuses(folders_, "circle", "a file, device or broken link has that name");
  Refuses(folders_, "/sys/x", "cannot write: ");
  Refuses(folders_, "/sys", "cannot write: ");
}

// What a command would find in its way only later.
TEST_F(OutputsTest, TemporaryNamesAreCheckedToo) {
  const auto refuses = [](Command command, const std::string& message) {
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  const Command quantize = {"quantize", "gone",     "--plan",      "",      "--method",
                            "hadamard", "--format", "safetensors", "--out", "out"};
  fs::create_directory("out");
  PutFile("out/tokenizer.model", "kept");
  refuses(quantize, "out/tokenizer.model: exists already");
  fs::remove_all("out");
  PutFile("q.h5.parts", "kept");
  refuses({"quantize", "gone", "--plan", "weights=int8/channel", "--out", "q.h5"}, "q.h5.parts: cannot write");
  fs::create_directory("s.h5.part");
  refuses({"stats", "gone", "--input", "text", "--out", "s.h5"}, "s.h5.part: a folder or device has that name");
}

// An output folder is looked at before tasks and texts are read, and what a killed run left beside it goes.
TEST_F(OutputsTest, AnInputThatLooksLikeALeftoverStays) {
  const std::string left = TemporaryName("out", 0), other = TemporaryName("out", 1);
  for (const Command& command :
       std::vector<Command>{{"sweep", "gone", "--tasks", "perplexity=" + left, "--out", "out"},
                            {"compare", "gone", "gone", "--tasks", "perplexity=" + left, "--out", "out"},
                            {"quantize", "gone", "--plan", "weights=int4/channel", "--method", "gptq", "--calibrate",
                             left, "--format", "compressed-tensors", "--out", "out"}}) {
    PutFile(left, "one two three");
    PutFile(other, "");
    EXPECT_EQ(StartTare(command).exit_code, 1);
    EXPECT_EQ(GetFile(left), "one two three") << command[0];
    EXPECT_FALSE(fs::exists(other)) << command[0];
  }
}

}  // namespace
}  // namespace tare::outputs_test
