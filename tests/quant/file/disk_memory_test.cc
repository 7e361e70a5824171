// SPDX-License-Identifier: Apache-2.0
#include "quant/file/disk_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <numeric>
#include <utility>

#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::disk_memory_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// What this process has mapped.
std::string Maps() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

TEST(DiskMemory, BuffersAreInFilesWithoutNames) {
  const TemporaryFolder folder;
  DiskMemory disk(folder.path());
  {
    AlignedBuffer<int> a(disk), other(3);
    for (const size_t size : {1000uz, 0uz, 100'000uz}) {
      a.Reset(size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
      std::iota(a.data(), a.data() + size, 7);
    }
    std::swap(a, other);  // the disk goes with what is on it
    a.Reset(5);
    const AlignedBuffer<int> moved = std::move(other);
    EXPECT_EQ(moved[99'999], 100'006);
    EXPECT_THAT(Maps(), HasSubstr(folder.path().string()));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
  EXPECT_THAT(Maps(), Not(HasSubstr(folder.path().string())));
}

TEST(DiskMemory, FoldersWithoutRoomAreNamed) {
  const TemporaryFolder folder;
  DiskMemory disk(folder.path()), nowhere(folder / "none");
  AlignedBuffer<char> large(disk), any(nowhere);
  EXPECT_THAT(Call([&] { large.Reset(1uz << 60); }),
              ThrowsMessage<Error>(AllOf(HasSubstr(folder.path().string() + ": cannot hold 1152921504606846976 bytes"),
                                         HasSubstr("try a folder with more space"))));
  EXPECT_THAT(Call([&] { any.Reset(1); }),
              ThrowsMessage<Error>(HasSubstr("none: cannot hold 1 bytes in a temporary file: No such file")));
}

}  // namespace
}  // namespace tare::disk_memory_test
