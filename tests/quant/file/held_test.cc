// SPDX-License-Identifier: Apache-2.0
#include "quant/file/held.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace tare::held_test {
namespace {

TEST(Held, CountsWhatOneProcessHolds) {
  Held held;
  held.Add("/a");
  held.Add("/a");
  held.Remove("/a");
  EXPECT_TRUE(held.Has("/a"));
  EXPECT_FALSE(held.Has("/b"));
  const pid_t child = fork();
  if (child == 0) _exit(held.Has("/a") ? 1 : 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  held.Remove("/a");
  EXPECT_FALSE(held.Has("/a"));
}

}  // namespace
}  // namespace tare::held_test
