// SPDX-License-Identifier: Apache-2.0
// What becomes of the files that have such names: atomic_file_test.cc.
#include "quant/file/temporary_name.h"

#include <unistd.h>

#include <sys/wait.h>

#include <limits>

#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::temporary_name_test {
namespace {

TEST(TemporaryName, IsKnownAndNothingElseIs) {
  const std::string name = TemporaryName("a.b", 3);
  EXPECT_TRUE(name.starts_with(Formatted("a.b.{}-3-", getpid())));
  EXPECT_TRUE(IsTemporaryName(name));
  EXPECT_NE(TemporaryName("a.b", 4), name);
  for (size_t at = 0; at < name.size(); ++at) {
    std::string other = name;
    other[at] = other[at] == '0' ? '1' : '0';
    EXPECT_FALSE(IsTemporaryName(other)) << other;
    EXPECT_FALSE(IsTemporaryName(name.substr(0, at))) << at;
  }
  for (const char* other : {"", ".tmp", "a.1-0.tmp", "a.1-0-0123456789abcdef.tmp"})
    EXPECT_FALSE(IsTemporaryName(other)) << other;
}

// Names as long as a file system takes them: their temporaries are too, and those of two names differ.
TEST(TemporaryName, LongNamesAreCutAndKeepApart) {
  const std::string longest_whole(212, 'a'), cut(213, 'a');
  EXPECT_TRUE(TemporaryName(longest_whole, 0).starts_with(longest_whole + "."));
  EXPECT_TRUE(TemporaryName(cut, 0).starts_with(std::string(195, 'a') + "-"));
  for (size_t size : {213u, 228u, 255u}) {
    const std::string one(size, 'a'), other = std::string(size - 1, 'a') + "b";
    constexpr int kMost = std::numeric_limits<int>::max();
    EXPECT_LE(TemporaryName(one, kMost).size(), 255u);
    EXPECT_TRUE(IsTemporaryName(TemporaryName(one, kMost)));
    EXPECT_NE(TemporaryName(one, 0).substr(0, 212), TemporaryName(other, 0).substr(0, 212));
  }
  EXPECT_TRUE(TemporaryName(std::string(256, 'a'), 0).starts_with(std::string(256, 'a')));  // no file can have it
  std::string umlauts;
  while (umlauts.size() < 254) umlauts += "\u00e4";
  EXPECT_TRUE(TemporaryName(umlauts, 0).starts_with(umlauts.substr(0, 194) + "-"));
}

TEST(TemporaryName, AFolderGoesWithItsFilesAndStaysWithWhatElseIsInIt) {
  const TemporaryFolder folder;
  const auto open = OpenFolder::Of(folder.path());
  for (const char* name : {"one", "two"}) std::filesystem::create_directory(folder / name);
  std::filesystem::create_directory(folder / "two/mine");
  PutFile(folder / "one/a", "");
  RemoveTemporary(*open, "one");
  RemoveTemporary(*open, "two");
  RemoveTemporary(*open, "none");
  EXPECT_EQ(folder.Names(), std::vector<std::string>{"two"});
}

TEST(Held, CountsWhatOneProcessHolds) {
  Held held;
  held.Add("/a");
  held.Add("/a");
  held.Remove("/a");
  EXPECT_TRUE(held.Has("/a"));
  EXPECT_FALSE(held.Has("/b"));
  const pid_t child = fork();
  if (child == 0) _exit(held.Has("/a") ? 1 : 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  held.Remove("/a");
  EXPECT_FALSE(held.Has("/a"));
}

}  // namespace
}  // namespace tare::temporary_name_test
