// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/drawing/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/asked_to_stop.h"

namespace tare::interpreter_test {
namespace {

using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(InterpreterTest, GivesTextsAndMessages) {
  Interpreter interpreter({"words.js", "values.js", "template.js"});
  (void)interpreter.Call("read", {"a{{ b }}"}, "here");
  EXPECT_EQ(interpreter.Call("write", {R"({"b": "c"})"}, "here"), "ac");
  EXPECT_THAT([&] { (void)interpreter.Call("write", {"{"}, "here"); },
              ThrowsMessage<Error>(StartsWith("here: SyntaxError: ")));
  EXPECT_EQ(interpreter.Call("write", {"{}"}, "here"), "a") << "an error ends a call and no more";
}

TEST(InterpreterTest, KeepsItsLimits) {
  Interpreter interpreter({"words.js", "values.js", "template.js"}, 10);
  (void)interpreter.Call("read", {"{% for i in range(n) %}{% endfor %}"}, "here");
  EXPECT_THAT([&] { (void)interpreter.Call("write", {R"({"n": 300000})"}, "here"); },
              ThrowsMessage<Error>(StartsWith("here: got no end after 10 steps")));
  EXPECT_THAT([&] { (void)interpreter.Call("write", {R"({"n": 99999999})"}, "here"); },
              ThrowsMessage<Error>(StartsWith("here: ")));
  EXPECT_EQ(interpreter.Call("write", {R"({"n": 1})"}, "here"), "") << "the steps are of one call";
  const AskedToStop asked;
  EXPECT_THROW((void)interpreter.Call("write", {R"({"n": 1})"}, "here"), Interrupted);
}

}  // namespace
}  // namespace tare::interpreter_test
