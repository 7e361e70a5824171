// SPDX-License-Identifier: Apache-2.0
#include "quant/file/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace tare::descriptor_test {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

int Opened() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(Descriptor, IsClosedAtTheEndOfTheOneThatHasIt) {
  const int fd = Opened();
  ASSERT_GE(fd, 0);
  {
    Descriptor first(fd);
    {
      const Descriptor second(std::move(first));
      EXPECT_EQ(second.get(), fd);
      EXPECT_EQ(first.get(), -1);
      EXPECT_TRUE(IsOpen(fd));
    }
    EXPECT_FALSE(IsOpen(fd));
  }
}

TEST(Descriptor, AnotherTakesItsPlace) {
  const int before = Opened(), after = Opened();
  Descriptor descriptor(before);
  descriptor = Descriptor(after);
  EXPECT_EQ(descriptor.get(), after);
  EXPECT_FALSE(IsOpen(before));
  EXPECT_TRUE(IsOpen(after));
}

TEST(Descriptor, WhatIsReleasedStaysOpen) {
  const int fd = Opened();
  {
    EXPECT_EQ(Descriptor(fd).release(), fd);
  }
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

}  // namespace
}  // namespace tare::descriptor_test
