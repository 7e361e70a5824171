// SPDX-License-Identifier: Apache-2.0
// Runs in this process and restores its soft limits. Sanitizers need memory of their own, so this file is empty there.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "quant/base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <vector>

#include "quant/base/error.h"

namespace tare {
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

}  // namespace
}  // namespace tare
#endif
