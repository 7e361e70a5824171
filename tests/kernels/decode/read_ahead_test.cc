// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace tare {
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

// Reading a block in records, wherever in 256 bytes they begin, asks for every line of the next block once, and never
// for two lines of a small page in a row.
TEST(ReadAhead, ABlockIsAskedForWhileTheOneBeforeIsRead) {
  constexpr uintptr_t kBlock = 5 * kReadAhead, kNext = kBlock + kReadAhead;
  for (const uintptr_t record : {256, 768}) {
    for (const uintptr_t begin : {0, 64, 192}) {
      std::vector<int> asked(kReadAhead / 64);
      const uintptr_t records = kReadAhead / record;
      uintptr_t before = 0;
      for (uintptr_t i = 0; i < records; ++i) {
        for (uintptr_t line = 0; line < record / 64; ++line) {
          const uintptr_t ahead = LineAhead(kBlock + begin + i * record, line);
          ASSERT_EQ(ahead % 64, 0u);
          ASSERT_NE(ahead / 4096, before / 4096);
          ++asked.at((ahead - kNext) / 64);
          before = ahead;
        }
      }
      EXPECT_EQ(std::ranges::max(asked), 1);
      EXPECT_EQ(std::ranges::count(asked, 1), static_cast<std::ptrdiff_t>(records * record / 64));
    }
  }
}

TEST(ReadAhead, HintsHaveNames) {
  EXPECT_EQ(Name(ReadHint::kNone), "none");
  EXPECT_EQ(Name(ReadHint::kOnce), "once");
  EXPECT_EQ(Name(ReadHint::kKept), "kept");
}

}  // namespace
}  // namespace tare
