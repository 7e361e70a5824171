// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM at random moments of every command: it ends by the signal, if it is not done by then, and no
// temporary file is left.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "quant/file/output_folder.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/report_material.h"
#include "tests/support/run_command.h"

namespace tare::signals_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

class SignalsTest : public testing::Test {
 protected:
  SignalsTest() {
    PutManyIds(ids_, 8, 256);
    PutFile(In("o.json"), OutliersOf("m", 20, 60).dump());
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "It was a dark and stormy night; the rain fell in torrents.\n";
    PutFile(In("text"), text);
  }
  std::string In(const std::string& name) const { return folder_ / name; }

  std::vector<Words> Commands() const {
    const std::string model = GoldenFolder("diffllama-gqa"), pair = PairFolder("novels-standard"), out = In("out/x");
    const std::string tasks = "perplexity=" + ids_, q = "attn_logits=int4/row";
    return {{"inspect", model, "--check", "--json", out},
            {"dump", model, "--input", ids_, "--out", out},
            {"stats", model, "--input", ids_, "--out", out},
            {"eval", model, "--tasks", tasks, "--plan", q, "--json", out},
            {"generate", pair, "--prompt", "It was", "--tokens", "30", "--json", out},
            {"quantize", pair, "--plan", "weights=int4/group16", "--out", out},
            {"convert", model, "--to", "diff_v1", "--out", out},
            {"sweep", model, "--tasks", tasks, "--bits", "16,4", "--limit", "4", "--out", out},
            {"compare", model, GoldenFolder("llama-mha"), "--tasks", tasks, "--limit", "4", "--out", out},
            {"attribute", model, "--tasks", tasks, "--plan", q + ",v=int8/token", "--limit", "2", "--out", out},
            {"maps", model, "--input", ids_, "--plan", q, "--json", out},
            {"levels", model, "--plan", "k=normal3/channel+mean", "--calibrate", ids_, "--out", out},
            {"search", model, "--input", ids_, "--within", "0.1", "--limit", "1", "--out", out},
            {"tokenize", pair, "--input", In("text"), "--out", out},
            {"make", "copies", pair, "--text", PairFolder("heldout.txt"), "--lengths", "128", "--samples", "2", "--out",
             out},
            {"report", In("o.json"), "--out", out},
            {"plot", In("o.json"), "--figure", "largest", "--out", out + ".svg"},
            {"bench", "linear", "--json", out}};
  }

  // What a command leaves besides its outputs and what the next one takes up.
  Words Leftovers() const {
    Words left;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
      if (IsTemporaryName(entry.path().filename())) left.push_back(entry.path());
    return left;
  }
  void Empty() const {
    fs::remove_all(In("out"));
    fs::create_directory(In("out"));
  }

  TemporaryFolder folder_;
  std::string ids_ = folder_ / "ids.safetensors";
};

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

TEST_F(SignalsTest, AtRandomMoments) {
  std::mt19937 random(76);
  int ended = 0, sent = 0;
  for (const Words& words : Commands()) {
    double whole = 1;  // seconds at most
    for (const int signal : {0, SIGINT, SIGTERM}) {
      SCOPED_TRACE(testing::PrintToString(words) + ", signal " + std::to_string(signal));
      Empty();
      RunningCommand command(TareCommand(words), {.environment = {"TMPDIR=" + folder_.path().string()}});
      const auto start = Clock::now();
      const double when = std::uniform_real_distribution(0.0, whole)(random);
      const bool waits = signal == 0 && words[0] != "bench";  // which takes minutes
      if (!waits) {
        command.SignalOnce([&] { return SecondsSince(start) >= when; }, signal == 0 ? SIGINT : signal);
        const auto signalled = Clock::now();
        const Outcome outcome = command.Wait();
        EXPECT_LT(SecondsSince(signalled), 3.0);  // a second, on a busy machine
        EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == -signal || signal == 0)
            << outcome.exit_code << outcome.err;
        ended += outcome.exit_code < 0 ? 1 : 0;
        ++sent;
      } else {
        EXPECT_EQ(command.Wait().exit_code, 0);
        whole = std::min(whole, SecondsSince(start));
      }
      EXPECT_EQ(Leftovers(), Words());
    }
  }
  EXPECT_GT(ended, sent / 2);  // else this test tested little
}

// timeout(1) sends its signal to the process and then to its group.
TEST_F(SignalsTest, TheSameSignalTwiceIsOne) {
  Empty();
  const Words words{"stats", GoldenFolder("diffllama-gqa"), "--input", ids_, "--out", In("out/x")};
  RunningCommand command(TareCommand(words));
  const auto begun = [&] { return !Leftovers().empty(); };
  command.SignalOnce(begun, SIGINT);
  kill(command.process(), SIGINT);
  const Outcome outcome = command.Wait();
  EXPECT_EQ(outcome.exit_code, -SIGINT);
  EXPECT_EQ(Leftovers(), Words());
}

// As in `tare ... | head`, of which the shell tells only how the last of a pipeline ended.
TEST_F(SignalsTest, AReaderThatEndsIsNoFaultAndLeavesNothing) {
  Empty();
  const auto run = [&](const std::string& env) {
    Words words{"/bin/bash", "-c", "env " + env + " \"$@\" | true; exit ${PIPESTATUS[0]}", "bash"};
    for (const std::string& word : TareCommand(
             {"stats", PairFolder("novels-standard"), "--input", In("text"), "--tokens", "508", "--out", In("out/x")}))
      words.push_back(word);
    return RunningCommand(words).Wait();
  };
  const Outcome silent = run("--default-signal=PIPE");
  EXPECT_EQ(silent.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(silent.err.find("standard output"), std::string::npos) << silent.err;
  EXPECT_EQ(Leftovers(), Words());
  const Outcome said = run("--ignore-signal=PIPE");  // as from Python
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_NE(said.err.find("standard output: cannot be written: whoever reads it has ended\n"), std::string::npos);
  EXPECT_EQ(Leftovers(), Words());
}

// The pipe has a writer, which writes nothing.
TEST_F(SignalsTest, WhileItWaitsForAPipe) {
  ASSERT_EQ(mkfifo(In("pipe").c_str(), 0600), 0);
  Words words{"/bin/sh", "-c", "pipe=$1; shift; exec \"$@\" <>\"$pipe\"", "sh", In("pipe")};
  for (const std::string& word : TareCommand({"eval", PairFolder("novels-standard"), "--tasks", "perplexity=-"}))
    words.push_back(word);
  RunningCommand command(words);
  const auto start = Clock::now();
  command.SignalOnce([&] { return SecondsSince(start) > 0.3; }, SIGTERM);
  const Outcome outcome = command.Wait();
  EXPECT_EQ(outcome.exit_code, -SIGTERM);
  EXPECT_EQ(outcome.err, "tare: interrupted: no half-written file was left behind; nothing was kept\n");
}

}  // namespace
}  // namespace tare::signals_test
