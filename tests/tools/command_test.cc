// SPDX-License-Identifier: Apache-2.0
// Parts shared by the subcommands: progress on a terminal, a standard output that cannot be written, variables of
// libraries, names with control characters, and pipes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>

#include "quant/base/message.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare::command_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// /dev/full takes every open and refuses every write, as a file on a full disk does.
TEST(CommandTest, AFullStandardOutputIsAnError) {
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"inspect", model},
                                             {"inspect", model, "--json", "-"},
                                             {"stats", model, "--input", ids, "--json",
                                              "-"},  // more than a buffer: the write fails before the last flush
                                             {"eval", model, "--tasks", "perplexity=" + ids}}) {
    const Outcome outcome = StartTare(command, {.standard_output = "/dev/full"});
    EXPECT_EQ(outcome.exit_code, 1) << testing::PrintToString(command);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("tare: standard output: "), HasSubstr("cannot be written")));
  }
}

// What was asked for in files is not lost with what was printed.
TEST(CommandTest, FilesAreWrittenWhereStandardOutputIsFull) {
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors", json = folder / "f.json";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"eval", model, "--tasks", "perplexity=" + ids, "--json", json},
                                             {"stats", model, "--input", ids, "--json", json}}) {
    const Outcome outcome = StartTare(command, {.standard_output = "/dev/full"});
    EXPECT_EQ(outcome.exit_code, 1) << command[0];
    EXPECT_THAT(outcome.err, HasSubstr("standard output: cannot be written"));
    EXPECT_TRUE(std::filesystem::remove(json)) << command[0];
  }
}

// Runs the program through a shell, with `rest` after its words.
Outcome InShell(const std::vector<std::string>& arguments, const std::string& rest) {
  std::vector<std::string> words{"/bin/sh", "-c", "\"$@\" " + rest, "sh"};
  for (const std::string& word : TareCommand(arguments)) words.push_back(word);
  return RunningCommand(words).Wait();
}

// The first file that it opens would be its standard output.
TEST(CommandTest, AClosedStandardOutputIsRefused) {
  const std::string model = GoldenFolder("llama-mha");
  const Outcome outcome = InShell({"inspect", model}, ">&-");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "tare: standard output: got none, it is closed; try > /dev/null\n");
  EXPECT_EQ(InShell({"inspect", model}, "2>&-").out, StartTare({"inspect", model}).out);
}

TEST(CommandTest, StandardOutputHasTheNameOfItsDeviceToo) {
  const std::string model = GoldenFolder("llama-mha");
  const Outcome outcome = InShell({"inspect", model, "--json", "/dev/stdout"}, "| cat");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, StartTare({"inspect", model, "--json", "/dev/stdout"}).out);
  EXPECT_THAT(outcome.out, StartsWith("{\n  \"schema\": \"tare.inspect/1\""));
}

// A user who asks oneDNN for its lines gets them among tables, never inside JSON.
TEST(CommandTest, JsonOnStandardOutputIsAlone) {
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors";
  const CommandSetting verbose{.environment = {"ONEDNN_VERBOSE=1"}};
  for (const char* target : {"-", "/dev/stdout"}) {
    const std::vector<std::string> command{"eval", model, "--tasks", "perplexity=" + ids, "--json", target};
    EXPECT_EQ(StartTare(command, verbose).out, StartTare(command).out);
  }
  EXPECT_THAT(StartTare({"eval", model, "--tasks", "perplexity=" + ids}, verbose).out, HasSubstr("onednn_verbose"));
}

// Drivers, plugins and locks of HDF5, kinds of numbers and files of oneDNN, data of ICU, configuration of OpenSSL.
TEST(CommandTest, VariablesOfLibrariesChangeNothing) {
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("llama-mha"), file = folder / "q.h5";
  const std::vector<std::string> quantize{"quantize", model, "--plan", "weights=int8/channel", "--out", file};
  ASSERT_EQ(StartTare(quantize).exit_code, 0);
  const std::string expected = GetFile(file);
  for (const char* variable :
       {"HDF5_DRIVER=nothing", "HDF5_DRIVER=core", "HDF5_USE_FILE_LOCKING=TRUE", "HDF5_VOL_CONNECTOR=any",
        "HDF5_PLUGIN_PRELOAD=x", "HDF5_DISABLE_VERSION_CHECK=x", "ONEDNN_DEFAULT_FPMATH_MODE=ANY", "ONEDNN_JIT_DUMP=1",
        "ICU_DATA=/nowhere", "OPENSSL_CONF=/nowhere", "OMP_NUM_THREADS=-3", "LC_ALL=xx"}) {
    std::filesystem::remove(file);
    const CommandSetting setting{.environment = {variable}};
    const Outcome made = StartTare(quantize, setting), checked = StartTare({"verify", file}, setting);
    EXPECT_EQ(made.exit_code, 0) << variable << made.err;
    EXPECT_EQ(checked.exit_code, 0) << variable << checked.err;
    EXPECT_EQ(GetFile(file), expected) << variable;
  }
}

TEST(CommandTest, NamesDoNotReachTheTerminalRaw) {
  const TemporaryFolder folder;
  const std::string model = folder / "\x1b[31mred\xc2\x9b", gone = folder / "none\x1b]0;title\x07";
  std::filesystem::copy(GoldenFolder("llama-mha"), model);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"inspect", model},
                                             {"inspect", model, "--json", "-"},
                                             {"inspect", gone},
                                             {"plan", "weights=\x1b[2J"},
                                             {"plan", "int8", "--\x1b[2J"},
                                             {"eval", model, "--tasks", "\x1b[2Jx=1"}}) {
    const Outcome outcome = StartTare(command);
    const std::string all = outcome.out + outcome.err;
    EXPECT_EQ(all.find_first_of("\x1b\x07"), all.npos) << all;
    EXPECT_EQ(all.find("\xc2\x9b"), all.npos) << all;
    EXPECT_THAT(all, testing::AnyOf(HasSubstr("\\u001b"), HasSubstr("weights=?[2J")));
  }
}

// A pipe without a writer would be waited for without end.
TEST(CommandTest, PipesAreNamedAndNotWaitedFor) {
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors";
  for (const char* ending : {"", ".txt", ".jsonl", ".h5", ".npz", ".gguf", ".json"}) {
    const std::string pipe = folder / Formatted("pipe{}", ending);
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"inspect", pipe},
                                               {"verify", pipe},
                                               {"stats", "show", pipe},
                                               {"stats", "--tensors", pipe, "--out", folder / "s.h5"},
                                               {"eval", model, "--tasks", "perplexity=" + pipe},
                                               {"eval", model, "--tasks", "choice=" + pipe},
                                               {"eval", model, "--tasks", "perplexity=" + ids, "--json", pipe},
                                               {"report", pipe, "--out", folder / "r.html"},
                                               {"plan", "weights=grid(" + pipe + ")/channel"},
                                               {"convert", pipe, "--to", "gguf", "--out", folder / "o.gguf"}}) {
      const Outcome outcome = StartTare(command);
      EXPECT_EQ(outcome.exit_code, RefusalCode(outcome.err)) << testing::PrintToString(command);
      EXPECT_THAT(outcome.err, HasSubstr(pipe)) << testing::PrintToString(command);
    }
  }
}

TEST(CommandTest, JsonHasTheCommandInShellSyntax) {
  const TemporaryFolder folder;
  const std::string model = folder / "a model's";
  std::filesystem::copy(GoldenFolder("llama-mha"), model);
  const Outcome outcome = StartTare({"inspect", model, "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"command\": \"tare inspect '" + (folder / "a model").string() + "'\\\\''s'\","));
}

// A sweep on one machine and on many has the same bytes: options that do not affect figures are not in them.
TEST(CommandTest, JsonHasOnlyOptionsThatFiguresDependOn) {
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors";
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"eval", model, "--tasks", "perplexity=" + ids,
                                      "--json=" + (folder / "e.json").string()};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = StartTare(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return GetFile(folder / "e.json");
  };
  const std::string plain = run({});
  EXPECT_THAT(plain, HasSubstr("\"command\": \"tare eval " + model + " --tasks perplexity=" + ids + "\","));
  EXPECT_EQ(run({"--threads", "1", "--quiet"}), plain);
  EXPECT_NE(run({"--limit", "40"}), plain);
}

// The output on a terminal: at most 4,096 bytes, which wait in it to be read.
std::string OnTerminal(const std::vector<std::string>& arguments, int terminal) {
  const std::string name = ptsname(terminal);
  EXPECT_EQ(StartTare(arguments, {.standard_output = name, .standard_error = name}).exit_code, 0);
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, read(terminal, text.data(), text.size()))));
  return text;
}

TEST(CommandTest, FiguresReplaceProgressOnATerminal) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudoterminals here";
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors";
  const std::string text = OnTerminal({"eval", model, "--tasks", "perplexity=" + ids}, terminal);
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kperplexity:expected: 74 of 74 tokens, "));
  EXPECT_THAT(text, HasSubstr(" s left\r\x1b[Kperplexity:expected          perplexity "));
  EXPECT_THAT(OnTerminal({"eval", model, "--tasks", "perplexity=" + ids, "--quiet"}, terminal),
              StartsWith("perplexity:expected          perplexity "));
  close(terminal);
}

// Commands are long if they read or write a whole checkpoint, or time one kernel after another (all of bench do as
// bench linear does).
TEST(CommandTest, LongCommandsShowProgressUnlessQuiet) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudoterminals here";
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("llama-mha"), codes = folder / "Q.h5";
  ASSERT_EQ(StartTare({"quantize", model, "--plan", "weights=int8/channel", "--out", codes}).exit_code, 0);
  const std::vector<std::pair<std::vector<std::string>, const char*>> commands{
      {{"verify", codes}, " matrices, "},
      {{"convert", model, "--to", "llama", "--out", folder / "copy"}, "convert: 386 KB of 386 KB, "},
      {{"bench", "linear", "--plan", "weights=int8/channel,linear_in=int8/token", "--rows", "2", "--out", "64", "--in",
        "64", "--repetitions", "1"},
       "bench linear: 1 of 1 cases, "}};
  for (const auto& [command, says] : commands) {
    EXPECT_THAT(OnTerminal(command, terminal), AllOf(HasSubstr("\r\x1b[K"), HasSubstr(says)));
    std::filesystem::remove_all(folder / "copy");
    std::vector<std::string> quiet = command;
    quiet.push_back("--quiet");
    EXPECT_THAT(OnTerminal(quiet, terminal), testing::Not(HasSubstr("\x1b")));
  }
  close(terminal);
}

// A line that wraps would leave one for each time that it is rewritten: names are cut, rates and times left are not.
TEST(CommandTest, ProgressFitsTheTerminal) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudoterminals here";
  const winsize size{.ws_row = 24, .ws_col = 82, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("llama-mha"), task = "perplexity=" + model + "/expected.safetensors";
  const Outcome outcome = StartTare({"sweep", model, "--bits", "16,4", "--tasks", task, "--out", folder / "s"},
                                    {.standard_error = ptsname(terminal)});
  ASSERT_EQ(outcome.exit_code, 0);
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, read(terminal, text.data(), text.size()))));
  EXPECT_THAT(text, HasSubstr("run 1 of 2, 50 % of all, 0 s left; llama-mha f"));
  EXPECT_THAT(text, HasSubstr("run 2 of 2, 100 % of all, 0 s left; llama-mha a"));
  size_t lines = 0;
  for (size_t begin = 0, end = 0; (end = text.find("\r\x1b[K", begin)) != std::string::npos; begin = end + 4, ++lines)
    EXPECT_LT(end - begin, 82u) << text.substr(begin, end - begin);
  EXPECT_GE(lines, 2u);
  close(terminal);
}

}  // namespace
}  // namespace tare::command_test
