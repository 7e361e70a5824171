// SPDX-License-Identifier: Apache-2.0
// What becomes of the files that have such names: atomic_file_test.cc.
#include "quant/file/output_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <optional>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::output_folder_test {
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

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

TEST(AtomicFolder, ComesWholeOrNotAtAll) {
  const TemporaryFolder folder;
  {
    const AtomicFolder dropped(folder / "m");
    WriteFileAtomically(dropped.path() / "a", "1");
    EXPECT_FALSE(std::filesystem::exists(folder / "m"));
  }
  EXPECT_THAT(folder.Names(), IsEmpty());
  {
    AtomicFolder made(folder / "m");
    WriteFileAtomically(made.path() / "a", "1");
    made.Commit();
  }
  EXPECT_THAT(folder.Names(), ElementsAre("m"));
  EXPECT_EQ(GetFile(folder / "m/a"), "1");
}

TEST(AtomicFolder, ItsNameIsAsLongAsTheFileSystemTakesIt) {
  const TemporaryFolder folder;
  const std::string longest(255, 'm');
  AtomicFolder made(folder / longest);
  WriteFileAtomically(made.path() / longest, "1");
  made.Commit();
  EXPECT_EQ(GetFile(folder / longest / longest), "1");
  EXPECT_THAT(Call([&] { const AtomicFolder refused(folder / (longest + "m")); }),
              ThrowsMessage<Error>(HasSubstr("cannot write: File name too long")));
}

TEST(AtomicFolder, AddsToAFolderAndReplacesNothing) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "m");
  PutFile(folder / "m/mine", "mine");
  for (const char* name : {"ours", "mine"}) {
    AtomicFolder made(folder / "m");
    WriteFileAtomically(made.path() / name, "ours");
    if (std::string(name) == "ours") {
      made.Commit();
    } else {
      EXPECT_THAT(Call([&] { made.Commit(); }), ThrowsMessage<Error>(HasSubstr("m/mine: cannot write: File exists")));
    }
  }
  EXPECT_EQ(GetFile(folder / "m/mine"), "mine");
  EXPECT_EQ(GetFile(folder / "m/ours"), "ours");
  EXPECT_THAT(folder.Names(), ElementsAre("m"));
}

TEST(AtomicFolder, RemovesWhatAKillLeftAndNothingElse) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const auto* const left = new AtomicFolder(folder / "m");
    PutFile(left->path() / "model.safetensors", "half");
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(folder.Names().size(), 1u);
  for (const char* name : {"m.folder.tmp", "m.1-0.tmp"}) {
    std::filesystem::create_directory(folder / name);
    PutFile(folder / name / "model.safetensors", "mine");
  }
  {
    const AtomicFolder made(folder / "m");
  }
  EXPECT_THAT(folder.Names(), UnorderedElementsAre("m.folder.tmp", "m.1-0.tmp"));
  EXPECT_EQ(GetFile(folder / "m.1-0.tmp/model.safetensors"), "mine");
}

TEST(AtomicFolder, OneProcessWritesItAtATime) {
  const TemporaryFolder folder;
  const AtomicFolder ours(folder / "m");
  const pid_t child = fork();
  if (child == 0) {
    try {
      const AtomicFolder theirs(folder / "m");
      _exit(0);
    } catch (const Error& error) {
      _exit(std::string(error.what()).contains("is writing it") ? 1 : 2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(std::filesystem::exists(ours.path()));
}

// Whether another process can hold the folder now.
bool IsFree(const std::filesystem::path& folder) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      const OutputFolder ours(folder);
      _exit(0);
    } catch (const Error& error) {
      _exit(std::string_view(error.what()).contains("another process is writing into this folder") ? 1 : 2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_LT(WEXITSTATUS(status), 2);
  return WEXITSTATUS(status) == 0;
}

TEST(OutputFolder, OneProcessHoldsAFolderAtATime) {
  const TemporaryFolder folder;
  std::optional<OutputFolder> first(folder.path());
  EXPECT_FALSE(IsFree(folder.path()));
  {
    const OutputFolder again(folder.path() / ".");
  }
  EXPECT_FALSE(IsFree(folder.path()));
  first.reset();
  EXPECT_TRUE(IsFree(folder.path()));
}

TEST(OutputFolder, IsMadeAndGoesAgainWhereNothingCameIntoIt) {
  const TemporaryFolder folder;
  {
    const OutputFolder made(folder / "a" / "b");
    EXPECT_FALSE(IsFree(folder / "a" / "b"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a" / "b"));
  {
    const OutputFolder made(folder / "a" / "b");
    PutFile(folder / "a" / "b" / "c", "");
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "a" / "b" / "c"));
  std::filesystem::create_directory(folder / "empty");
  {
    const OutputFolder there(folder / "empty");
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "empty"));
  EXPECT_THAT(Call([&] { const OutputFolder file(folder / "a" / "b" / "c"); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("cannot be created as a folder")));
}

// A folder within, made after its parent was swapped for a link, is made in the one that is held.
TEST(OutputFolder, FoldersBelowAreOfTheOneThatIsHeld) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "mine");
  {
    const OutputFolder held(folder / "out");
    std::filesystem::rename(folder / "out", folder / "moved");
    std::filesystem::create_directory_symlink(folder / "mine", folder / "out");
    const OutputFolder below(folder / "out" / "below");
    PutFile(folder / "moved" / "below" / "a", "");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "mine"));
  EXPECT_TRUE(std::filesystem::exists(folder / "moved" / "below" / "a"));
}

}  // namespace

}  // namespace tare::output_folder_test
