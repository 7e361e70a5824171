// SPDX-License-Identifier: Apache-2.0
// In the released build alone: the address sanitizer is slow with twenty million small values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::json_memory_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Four bytes of text, an empty list, would take 64 of memory: 2 GB of a header that safetensors may have.
TEST(JsonMemory, RefusesValuesThatTakeManyTimesTheirText) {
  const auto list_of = [](std::string_view value, int count) {
    std::string text = "[0";
    for (int i = 0; i < count; ++i) text.append(",").append(value);
    return text + "]";
  };
  for (const char* value : {"[]", "{}", "{\"\":\"\"}", "\"\""}) {
    const std::string text = list_of(value, 2'700'000);
    EXPECT_THAT(Call([&] { ParseJson(text, "here"); }),
                ThrowsMessage<Error>(AllOf(HasSubstr("here: got values that take over "), HasSubstr(" MB of memory"))))
        << value;
    EXPECT_THROW(ParseOrderedJson(text, "here"), Error) << value;
  }
  EXPECT_EQ(ParseJson(list_of("[\"a\",\"b\"]", 600'000), "here").size(), 600'001u);  // merges of a tokenizer
}

}  // namespace
}  // namespace tare::json_memory_test
