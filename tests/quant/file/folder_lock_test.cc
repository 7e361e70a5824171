// SPDX-License-Identifier: Apache-2.0
#include "quant/file/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string_view>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::folder_lock_test {
namespace {

// Whether another process can hold the folder now.
bool IsFree(const std::filesystem::path& folder) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      const FolderLock lock(folder);
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

TEST(FolderLock, OneProcessHoldsAFolderAtATime) {
  const TemporaryFolder folder;
  std::optional<FolderLock> first(folder.path());
  EXPECT_FALSE(IsFree(folder.path()));
  {
    const FolderLock again(folder.path() / ".");
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
}  // namespace tare::folder_lock_test
