// SPDX-License-Identifier: Apache-2.0
#include "quant/file/output_folder.h"

#include <unistd.h>

#include <sys/wait.h>

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
