// SPDX-License-Identifier: Apache-2.0
#include "quant/file/write_failure.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::write_failure_test {
namespace {

using testing::ThrowsMessage;

TEST(WriteFailure, NamesThePathTheReasonAndSomethingToTry) {
  EXPECT_THAT(Call([] { FailToCreate("a/b", EACCES); }),
              ThrowsMessage<Error>("a/b: cannot write: Permission denied; try checking the folder's permissions, or "
                                   "write to another"));
  EXPECT_THAT(Call([] { FailToCreate("a/b", ENAMETOOLONG); }),
              ThrowsMessage<Error>("a/b: cannot write: File name too long; try a shorter one"));
  EXPECT_THAT(Call([] { FailToWrite("a/b", ENOSPC); }),
              ThrowsMessage<Error>("a/b: writing failed: No space left on device; try freeing space there, or write to "
                                   "another folder"));
  EXPECT_THAT(Call([] { FailToOpenFolderOf("a/b", ENOENT); }),
              ThrowsMessage<Error>("a/b: cannot write: no folder a; try mkdir -p first"));
  EXPECT_THAT(Call([] { FailToOpenFolderOf("a/b", ENOTDIR); }),
              ThrowsMessage<Error>("a/b: cannot write: a is not a folder"));
}

TEST(WriteFailure, AFolderThatCannotBeSyncedIsNone) {
  const TemporaryFolder folder;
  SyncFolder(*OpenFolder::Of(folder.path()), folder / "a");
  const int fd = open("/proc/self", O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0);
  SyncFolder(*OpenFolder::Adopt(fd), "/proc/self/a");  // EINVAL
}

}  // namespace
}  // namespace tare::write_failure_test
