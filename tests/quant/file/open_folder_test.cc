// SPDX-License-Identifier: Apache-2.0
#include "quant/file/open_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/quant/file/temporary_folder.h"

namespace tare::open_folder_test {
namespace {

namespace fs = std::filesystem;

ino_t IdentityOf(const std::shared_ptr<const OpenFolder>& folder) {
  struct stat status{};
  EXPECT_EQ(fstat(folder->fd(), &status), 0);
  return status.st_ino;
}

TEST(OpenFolder, IsOneWhileItIsHeldHoweverItIsSpelled) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "a/b");
  auto held = OpenFolder::Of(folder / "a");
  EXPECT_EQ(OpenFolder::Of(folder / "a/"), held);
  EXPECT_EQ(OpenFolder::Of(folder / "./a/."), held);
  EXPECT_NE(OpenFolder::Of(folder / "a/b"), held);
  const ino_t inside = IdentityOf(OpenFolder::Of(folder / "a/b"));
  fs::rename(folder / "a", folder / "moved");
  fs::create_directories(folder / "a/b");
  EXPECT_EQ(OpenFolder::Of(folder / "a"), held);
  EXPECT_EQ(IdentityOf(OpenFolder::Of(folder / "a/b")), inside);
  held.reset();
  EXPECT_NE(IdentityOf(OpenFolder::Of(folder / "a/b")), inside);
}

// After a link ".." does not lead back.
TEST(OpenFolder, TwoFoldersAreNotOne) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "a/b");
  fs::create_directories(folder / "c");
  fs::create_directory_symlink("a/b", folder / "link");
  const auto held = OpenFolder::Of(folder / "c"), other = OpenFolder::Of(folder / "link/..");
  EXPECT_NE(IdentityOf(OpenFolder::Of(folder.path())), IdentityOf(other));
}

TEST(OpenFolder, WhatIsNoFolderIsNone) {
  const TemporaryFolder folder;
  PutFile(folder / "file", "");
  EXPECT_EQ(OpenFolder::Of(folder / "none"), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(OpenFolder::Of(folder / "file"), nullptr);
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_EQ(OpenFolder::Make(folder / "file/x"), nullptr);
}

TEST(OpenFolder, IsMadeWithThoseAbove) {
  const TemporaryFolder folder;
  bool made = false;
  const auto made_here = OpenFolder::Make(folder / "a/b/c", &made);
  ASSERT_NE(made_here, nullptr);
  EXPECT_TRUE(made);
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  EXPECT_EQ(OpenFolder::Make(folder / "a/b/c", &made), made_here);
  EXPECT_FALSE(made);
  PutFile(folder / "a/b/c/file", "");
  std::vector<std::string> names;
  made_here->ForEachName([&](const std::string& name) { names.push_back(name); });
  EXPECT_THAT(names, testing::ElementsAre("file"));
  RemoveFile(folder / "a/b/c/file");
  EXPECT_FALSE(fs::exists(folder / "a/b/c/file"));
}

}  // namespace
}  // namespace tare::open_folder_test
