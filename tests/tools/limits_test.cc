// SPDX-License-Identifier: Apache-2.0
// When memory, threads or open files run out, a command ends with a message and exit code 1, never with a signal.
// In the released build alone: sanitized, the program needs terabytes of addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/run_command.h"

namespace tare::limits_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Command = std::vector<std::string>;

constexpr rlim_t kMega = 1 << 20;

class LimitsTest : public testing::Test {
 protected:
  LimitsTest() { PutManyIds(ids_, 1, 20); }

  Outcome Within(rlim_t bytes, const Command& command) { return StartTare(command, {.memory_bytes = bytes}); }

  // The least memory, to 1 MiB, with which the command succeeds.
  rlim_t Least(const Command& command) {
    rlim_t fails = 32 * kMega, succeeds = 1024 * kMega;
    while (succeeds - fails > kMega) {
      const rlim_t middle = (fails + succeeds) / 2;
      (Within(middle, command).exit_code == 0 ? succeeds : fails) = middle;
    }
    return succeeds;
  }

  TemporaryFolder folder_;
  const std::string ids_ = folder_ / "ids.safetensors", model_ = GoldenFolder("diffllama-mha");
  const std::vector<Command> commands_ = {
      {"eval", model_, "--tasks", "perplexity=" + ids_, "--threads", "1", "--executed", "--plan",
       "q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel,weights=int8/channel,linear_in=int8/token"},
      {"dump", model_, "--input", ids_, "--threads", "2", "--out", folder_ / "d.h5"}};
};

// oneDNN crashed within 4 MiB of the least memory that it took.
TEST_F(LimitsTest, RunningOutOfMemoryGivesAMessage) {
  for (const Command& command : commands_) {
    const rlim_t least = Least(command);
    for (int step = 1; step <= 8; ++step) {
      const Outcome outcome = Within(least - static_cast<rlim_t>(step) * kMega / 2, command);
      ASSERT_THAT(outcome.exit_code, AnyOf(0, 1)) << command[0] << ", " << least << " less " << step;
      if (outcome.exit_code == 0) continue;
      EXPECT_THAT(outcome.err, AllOf(StartsWith("tare: "), HasSubstr("ulimit -v"))) << outcome.err;
    }
  }
}

// Libraries ended with a signal, and HDF5 called a whole file damaged.
TEST_F(LimitsTest, ASmallStackOrHeapIsNamed) {
  const auto within = [&](const std::string& limit) {
    Command words{"/bin/sh", "-c", "ulimit " + limit + "; exec \"$0\" \"$@\""};
    for (const std::string& word : TareCommand({"inspect", model_, "--json", folder_ / "i.json"}))
      words.push_back(word);
    return RunningCommand(words).Wait();
  };
  for (const std::string limit : {"-s 32", "-s 64", "-s 192", "-d 8000", "-d 24000"}) {
    const Outcome outcome = within(limit);
    EXPECT_EQ(outcome.exit_code, 1) << limit;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("tare: "), HasSubstr("ulimit " + limit + ", expected"))) << limit;
  }
  EXPECT_EQ(within("-s 1024").exit_code, 0);
}

TEST_F(LimitsTest, FailingThreadsGiveAMessage) {
  const Outcome outcome = Within(200 * kMega, {"eval", model_, "--tasks", "perplexity=" + ids_, "--threads", "512",
                                               "--plan", "weights=int8/channel"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("tare: threads: got "), HasSubstr(" of "), HasSubstr("--threads")));
}

// And leave nothing behind, a folder that was just made included.
TEST_F(LimitsTest, FewOpenFilesGiveAMessage) {
  for (const Command& command :
       {commands_[1], Command{"convert", model_, "--to", "diff_v1", "--out", folder_ / "made"}}) {
    for (rlim_t files = 4; files <= 8; ++files) {
      const Outcome outcome = StartTare(command, {.open_files = files});
      // 127: what the program is linked to cannot be opened
      ASSERT_THAT(outcome.exit_code, AnyOf(0, 1, 127)) << files;
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
        EXPECT_NE(entry.path().extension(), ".tmp") << command[0] << " with " << files;
      if (outcome.exit_code != 1) continue;
      EXPECT_THAT(outcome.err, AllOf(StartsWith("tare: "), HasSubstr("Too many open files")));
    }
  }
}

}  // namespace
}  // namespace tare::limits_test
