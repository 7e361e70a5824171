// SPDX-License-Identifier: Apache-2.0
// In this process, whose soft limits go back to where they were. Sanitizers need memory of their own: there this is empty.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "quant/base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "quant/base/error.h"

namespace tare {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Limited {
 public:
  explicit Limited(__rlimit_resource resource) : resource_(resource) {
    getrlimit(resource, &before_);
    const rlimit limit{InUse() + kLeft, before_.rlim_max};
    setrlimit(resource, &limit);
  }
  ~Limited() { setrlimit(resource_, &before_); }

 private:
  static constexpr rlim_t kLeft = 16 << 20;  // for what a test allocates, and too little to be room

  // Pages of the whole address space, which data are a part of.
  static rlim_t InUse() {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  }

  const __rlimit_resource resource_;
  rlimit before_;
};

TEST(Memory, RoomIsRefusedByTheNameOfTheLimit) {
  RequireRoom();
  {
    const Limited limited(RLIMIT_AS);
    EXPECT_THAT(RequireRoom, ThrowsMessage<Error>(HasSubstr("less than 32 MiB left under ulimit -v ")));
  }
  {
    const Limited limited(RLIMIT_DATA);
    const Limited both(RLIMIT_AS);
    EXPECT_THAT(MemoryLimits(), testing::MatchesRegex(" under ulimit -v [0-9]+ and ulimit -d [0-9]+"));
  }
  EXPECT_EQ(MemoryLimits(), "");
  RequireRoom();
}

}  // namespace
}  // namespace tare
#endif
