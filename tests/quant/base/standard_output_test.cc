// SPDX-License-Identifier: Apache-2.0
#include "quant/base/standard_output.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "quant/base/error.h"

namespace tare::standard_output_test {
namespace {

// /dev/full refuses every write, as a full disk does.
TEST(PutText, SaysAtOnceThatItCannotBeWritten) {
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
  dup2(full, STDOUT_FILENO);
  std::string message;
  try {
    PutText("x");
  } catch (const Error& error) {
    message = error.what();
  }
  dup2(before, STDOUT_FILENO);
  std::clearerr(stdout);
  std::fflush(stdout);
  close(before), close(full);
  EXPECT_EQ(message,
            "standard output: cannot be written: No space left on device; try freeing space, or another place for it");
}

}  // namespace
}  // namespace tare::standard_output_test
