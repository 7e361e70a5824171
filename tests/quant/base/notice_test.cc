// SPDX-License-Identifier: Apache-2.0
#include "quant/base/notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tare::notice_test {
namespace {

std::vector<std::string> shown;

TEST(Notice, EachTextIsShownOnce) {
  Notice("before anybody listens");
  OnNotice([](const std::string& text) { shown.push_back(text); });
  for (const char* text : {"a", "b", "a"}) Notice(text);
  OnNotice(nullptr);
  Notice("c");
  EXPECT_THAT(shown, testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace tare::notice_test
