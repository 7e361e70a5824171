// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/read_ahead.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

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

TEST(ReadAhead, HintsHaveNames) {
  EXPECT_EQ(Name(ReadHint::kNone), "none");
  EXPECT_EQ(Name(ReadHint::kOnce), "once");
  EXPECT_EQ(Name(ReadHint::kKept), "kept");
}

}  // namespace
}  // namespace tare
