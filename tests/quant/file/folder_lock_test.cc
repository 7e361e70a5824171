// SPDX-License-Identifier: Apache-2.0
#include "quant/file/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare {
namespace {

TEST(FolderLock, OneHoldsAFolderAtATime) {
  const TemporaryFolder folder;
  std::optional<FolderLock> first(folder.path());
  EXPECT_THAT([&] { FolderLock second(folder.path()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("another process is writing into this folder")));
  first.reset();
  const FolderLock third(folder.path());
}

}  // namespace
}  // namespace tare
