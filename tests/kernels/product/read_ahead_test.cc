// SPDX-License-Identifier: Apache-2.0
#include "kernels/product/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace tare::read_ahead_test {
namespace {

// What the system says of the processor, where it says it.
TEST(ReadAhead, TheHintIsThatOfTheMaker) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.contains("GenuineIntel")) {
    EXPECT_EQ(BestReadHint(), ReadHint::kKept);
  } else if (text.contains("AuthenticAMD")) {
    EXPECT_NE(BestReadHint(), ReadHint::kKept);
  }
  EXPECT_EQ(BestReadHint(), BestReadHint());
}

// Reading block after block, in records of any length, asks for every line once, and never for two lines of a small
// page in a row.
TEST(ReadAhead, ABlockIsAskedForWhileTheOneBeforeIsRead) {
  constexpr uintptr_t kBlock = 6 * kReadAhead;  // a multiple of all records, as 3 blocks are
  for (const uintptr_t record : {256, 384, 768}) {
    std::vector<int> asked(3 * kReadAhead / 64);
    uintptr_t before = 0;
    for (uintptr_t at = kBlock; at < kBlock + 3 * kReadAhead; at += record) {
      for (uintptr_t line = 0; line < record / 64; ++line) {
        const uintptr_t ahead = LineAhead(at, line);
        ASSERT_EQ(ahead % 64, 0u);
        ASSERT_NE(ahead / 4096, before / 4096);
        ASSERT_EQ(ahead / kReadAhead, (at + 64 * line) / kReadAhead + 1);
        ++asked.at((ahead - kBlock - kReadAhead) / 64);
        before = ahead;
      }
    }
    EXPECT_EQ(std::ranges::count(asked, 1), std::ssize(asked)) << record;
  }
}

TEST(ReadAhead, HintsHaveNames) {
  EXPECT_EQ(Name(ReadHint::kNear), "near");
  EXPECT_EQ(Name(ReadHint::kOnce), "once");
  EXPECT_EQ(Name(ReadHint::kKept), "kept");
}

}  // namespace
}  // namespace tare::read_ahead_test
