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
#include <fstream>
#include <vector>

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

// Every other buffer of 100,000 bytes is freed: 20 MB in holes between what is in use.
TEST(Memory, HolesGoBackToTheSystem) {
  std::vector<std::vector<std::byte>> buffers;
  for (int i = 0; i < 400; ++i) buffers.emplace_back(100'000, std::byte{7});
  for (size_t i = 0; i < buffers.size(); i += 2) buffers[i] = std::vector<std::byte>();
  const int64_t before = ResidentBytes();
  ReturnFreedMemory();
  EXPECT_LT(ResidentBytes(), before - 15'000'000);
  EXPECT_EQ(buffers[1], std::vector<std::byte>(100'000, std::byte{7}));
}
#endif

}  // namespace
}  // namespace tare::memory_test
#endif
