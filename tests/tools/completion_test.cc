// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call_tare.h"

namespace tare::completion_test {
namespace {

using testing::StartsWith;

// What bash offers after these words, the last of them begun.
std::string Offered(const std::string& words) {
  const TemporaryFolder folder;
  PutFile(folder / "tare.bash", CallTare({"completion", "bash"}).out);
  PutFile(folder / "ask.bash", "source '" + (folder / "tare.bash").string() + "'\nCOMP_WORDS=(" + words +
                                   ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tare\necho \"${COMPREPLY[*]}\" > '" +
                                   (folder / "out").string() + "'\n");
  EXPECT_EQ(std::system(("bash '" + (folder / "ask.bash").string() + "'").c_str()), 0);
  return GetFile(folder / "out");
}

TEST(CompletionTest, CommandsAndTheirOptions) {
  EXPECT_EQ(Offered("tare ins"), "inspect\n");
  EXPECT_EQ(Offered("tare bench dec"), "decode\n");
  EXPECT_EQ(Offered("tare eval MODEL --pla"), "--plan\n");
  EXPECT_EQ(Offered("tare help meth"), "methods\n");
  EXPECT_EQ(Offered("tare eval --tasks choice=a.jsonl MODEL --cac"), "--cache\n");
  EXPECT_EQ(Offered("tare inspect M"), "\n");  // files, by the shell
}

TEST(CompletionTest, OtherShells) {
  EXPECT_THAT(CallTare({"completion", "zsh"}).out, StartsWith("#compdef tare\n"));
  EXPECT_EQ(CallTare({"completion", "fish"}).exit_code, 2);
}

}  // namespace
}  // namespace tare::completion_test
