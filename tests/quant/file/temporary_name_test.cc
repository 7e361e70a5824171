// SPDX-License-Identifier: Apache-2.0
// What becomes of the files that have such names: atomic_file_test.cc.
#include "quant/file/temporary_name.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include "quant/base/formatted.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare {
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

}  // namespace
}  // namespace tare
