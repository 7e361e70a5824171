// SPDX-License-Identifier: Apache-2.0
#include "quant/file/open_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::open_folder_test {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

int Opened() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(Descriptor, IsClosedAtTheEndOfTheOneThatHasIt) {
  const int fd = Opened();
  ASSERT_GE(fd, 0);
  {
    Descriptor first(fd);
    {
      const Descriptor second(std::move(first));
      EXPECT_EQ(second.get(), fd);
      EXPECT_EQ(first.get(), -1);
      EXPECT_TRUE(IsOpen(fd));
    }
    EXPECT_FALSE(IsOpen(fd));
  }
}

TEST(Descriptor, AnotherTakesItsPlace) {
  const int before = Opened(), after = Opened();
  Descriptor descriptor(before);
  descriptor = Descriptor(after);
  EXPECT_EQ(descriptor.get(), after);
  EXPECT_FALSE(IsOpen(before));
  EXPECT_TRUE(IsOpen(after));
}

TEST(Descriptor, WhatIsReleasedStaysOpen) {
  const int fd = Opened();
  {
    EXPECT_EQ(Descriptor(fd).release(), fd);
  }
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

namespace fs = std::filesystem;

using testing::ThrowsMessage;

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

TEST(WriteFailure, NamesThePathTheReasonAndSomethingToTry) {
  EXPECT_THAT(Call([] { FailToCreate("a/b", EACCES); }),
              ThrowsMessage<Error>("a/b: cannot write: Permission denied; try checking the folder's permissions, or "
                                   "write to another"));
  EXPECT_THAT(Call([] { FailToCreate("a/b", ENAMETOOLONG); }),
              ThrowsMessage<Error>("a/b: cannot write: File name too long; try a shorter one"));
  EXPECT_THAT(Call([] { FailToWrite("a/b", ENOSPC); }),
              ThrowsMessage<Error>("a/b: writing failed: No space left on device; try freeing space there, or write to "
                                   "another folder"));
  EXPECT_THAT(Call([] { OpenFolderOf("no/b"); }),
              ThrowsMessage<Error>("no/b: cannot write: no folder no; try mkdir -p first"));
  EXPECT_THAT(Call([] { OpenFolderOf("/dev/null/b"); }),
              ThrowsMessage<Error>("/dev/null/b: cannot write: /dev/null is not a folder"));
}

TEST(WriteFailure, AFolderThatCannotBeSyncedIsNone) {
  const TemporaryFolder folder;
  SyncFolder(*OpenFolder::Of(folder.path()), folder / "a");
  const int fd = open("/proc/self", O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0);
  SyncFolder(*OpenFolder::Adopt(fd), "/proc/self/a");  // EINVAL
}

}  // namespace

}  // namespace tare::open_folder_test
