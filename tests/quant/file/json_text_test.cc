// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json_text.h"

#include <gtest/gtest.h>

#include "quant/file/json.h"

namespace tare {
namespace {

TEST(JsonText, WhatIsNoUtf8IsReplaced) {
  const nlohmann::ordered_json json = {{"b", "x\xff"}, {"a", {1}}};
  EXPECT_EQ(JsonText(json), "{\"b\":\"x\xef\xbf\xbd\",\"a\":[1]}");
  EXPECT_EQ(JsonText({{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

}  // namespace
}  // namespace tare
