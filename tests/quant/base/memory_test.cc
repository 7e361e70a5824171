// SPDX-License-Identifier: Apache-2.0
// Runs in this process and restores its soft limits.
// In the released build alone: sanitizers need memory of their own.
#if !defined(__SANITIZE_THREAD__)
#include "quant/base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

#include "quant/base/aligned.h"
#include "quant/base/message.h"

namespace tare::memory_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Limited {
 public:
  explicit Limited(__rlimit_resource resource) : resource_(resource) {
    getrlimit(resource, &before_);
    const rlimit limit{8 << 20, before_.rlim_max};  // less than the process has: nothing more is to be had
    setrlimit(resource, &limit);
  }
  ~Limited() { setrlimit(resource_, &before_); }

 private:
  const __rlimit_resource resource_;
  rlimit before_;
};

TEST(Memory, RoomIsRefusedByTheNameOfTheLimit) {
  RequireRoom();
  {
    const Limited limited(RLIMIT_AS);
    EXPECT_THAT(RequireRoom, ThrowsMessage<Error>(HasSubstr("less than 32 MiB left under ulimit -v 8192, expected")));
  }
  {
    const Limited limited(RLIMIT_DATA);
    EXPECT_THAT(RequireRoom, ThrowsMessage<Error>(HasSubstr("less than 32 MiB left under ulimit -d 8192, expected")));
    const Limited both(RLIMIT_AS);
    EXPECT_EQ(MemoryLimits(), " under ulimit -v 8192 and ulimit -d 8192");
  }
  EXPECT_EQ(MemoryLimits(), "");
  RequireRoom();
}

TEST(Memory, LargePagesKeepWhatIsThere) {
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{9} << 20}) {
    std::vector<std::byte> memory(bytes, std::byte{7});
    AdviseLargePages(memory);
    EXPECT_TRUE(memory == std::vector<std::byte>(bytes, std::byte{7})) << bytes;
  }
}

#ifdef __GLIBC__
// The resident bytes of this process, less the pages of files.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0, of_files = 0;
  statm >> size >> resident >> of_files;
  return (resident - of_files) * sysconf(_SC_PAGESIZE);
}

// 64 buffers of 640 KiB, of which none fills a page of 2 MiB, and one larger than a chunk.
TEST(Memory, BuffersInLargePagesLieSideBySideAndGoBackTogether) {
  constexpr size_t kBytes = 640 << 10, kCount = 64;
  const int64_t before = ResidentBytes();
  std::vector<AlignedBuffer<std::byte>> buffers;
  for (size_t i = 0; i <= kCount; ++i) {
    buffers.emplace_back(LargePages()).Reset(i < kCount ? kBytes : size_t{40} << 20);
    std::memset(buffers.back().data(), static_cast<int>(i), buffers.back().size());
  }
  EXPECT_GT(ResidentBytes(), before + int64_t{kCount * kBytes + (size_t{39} << 20)});
  size_t neighbours = 0;
  for (size_t i = 0; i <= kCount; ++i) {
    for (const size_t at : {size_t{0}, buffers[i].size() - 1}) EXPECT_EQ(buffers[i][at], static_cast<std::byte>(i));
    if (i > 0) neighbours += buffers[i].data() == buffers[i - 1].data() + kBytes;
  }
  EXPECT_GE(neighbours, kCount - 4);  // in two or three chunks
  buffers.erase(buffers.begin() + 10, buffers.end());
  EXPECT_EQ(buffers[9][kBytes - 1], std::byte{9});
  AlignedBuffer<std::byte> empty(LargePages());
  empty.Reset(0);
  buffers.clear();
  EXPECT_LT(ResidentBytes(), before + (int64_t{33} << 20));  // a chunk that `empty` keeps
}
#endif

}  // namespace
}  // namespace tare::memory_test
#endif
