// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/drawing/interpreter.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <quickjs/quickjs.h>
#include <sys/resource.h>

#include "experiments/text/utf8.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

constexpr size_t kBytes = size_t{1} << 30, kStack = size_t{4} << 20;  // a script may get data of unknown origin

// Takes the value.
std::string TextOf(JSContext* context, JSValue value) {
  size_t size = 0;
  const char* const text = JS_ToCStringLen(context, &size, value);
  const std::string copy = text == nullptr ? "an exception without a message" : std::string(text, size);
  JS_FreeCString(context, text);
  JS_FreeValue(context, value);
  return copy;
}

// What the promise comes to, once all that it waits for has run; it is taken.
std::string Await(JSContext* context, JSValue promise, std::string_view where) {
  for (JSContext* of = nullptr; JS_ExecutePendingJob(JS_GetRuntime(context), &of) > 0;) {
  }
  const JSPromiseStateEnum state = JS_PromiseState(context, promise);  // of an exception none
  const std::string text = JS_IsException(promise)       ? TextOf(context, JS_GetException(context))
                           : state == JS_PROMISE_PENDING ? "it waits for something that never happens"
                                                         : TextOf(context, JS_PromiseResult(context, promise));
  JS_FreeValue(context, promise);
  ThrowIfStopped();
  if (state != JS_PROMISE_FULFILLED) Fail("{}: {}", where, text);
  return text;
}

}  // namespace

Interpreter::Interpreter(std::initializer_list<const char*> files, int64_t steps)
    : runtime_(JS_NewRuntime()), steps_(steps), steps_left_(steps) {
  TARE_CHECK(runtime_ != nullptr);
  JS_SetMemoryLimit(runtime_, kBytes);
  rlimit stack{};
  getrlimit(RLIMIT_STACK, &stack);
  JS_SetMaxStackSize(runtime_, std::min<size_t>(kStack, stack.rlim_cur / 2));
  const auto ends = [](JSRuntime*, void* n) { return StopRequested() || --*static_cast<int64_t*>(n) < 0 ? 1 : 0; };
  JS_SetInterruptHandler(runtime_, ends, &steps_left_);
  context_ = JS_NewContext(runtime_);
  TARE_CHECK(context_ != nullptr);
  for (const char* file : files) {
    const std::string_view text = Embedded(file);
    const JSValue value = JS_Eval(context_, text.data(), text.size(), file, JS_EVAL_TYPE_GLOBAL);
    if (JS_IsException(value)) Fail("{}: {}", file, TextOf(context_, JS_GetException(context_)));
    JS_FreeValue(context_, value);
  }
}

Interpreter::~Interpreter() {
  JS_FreeContext(context_);
  JS_FreeRuntime(runtime_);
}

std::string Interpreter::Call(const char* function, std::initializer_list<std::string_view> texts,
                              std::string_view where) {
  JS_UpdateStackTop(runtime_);  // the stack is of the thread that calls
  steps_left_ = steps_;
  const JSValue global = JS_GetGlobalObject(context_), called = JS_GetPropertyStr(context_, global, function);
  std::vector<JSValue> values;
  for (const std::string_view text : texts) values.push_back(JS_NewStringLen(context_, text.data(), text.size()));
  const JSValue result = JS_Call(context_, called, global, static_cast<int>(values.size()), values.data());
  values.insert(values.end(), {called, global});
  for (const JSValue value : values) JS_FreeValue(context_, value);
  if (steps_left_ < 0) {
    JS_FreeValue(context_, result);
    Fail("{}: got no end after {} steps, expected one; is there a loop without end?", where, steps_);
  }
  return Await(context_, result, where);
}

std::string Drawing::Svg(const std::string& name, const Json& specification) {
  return interpreter_.Call("draw", {name, JsonText(specification), Embedded("figures/style.json")}, "figure " + name);
}

ChatWriter ReadChatTemplate(const std::string& source, const std::string& where) {
  constexpr int64_t kSteps = 2000;  // up to four seconds, a hundred times what a long chat needs
  RequireUtf8(source, where);
  const std::shared_ptr<Interpreter> script(new Interpreter({"words.js", "values.js", "template.js"}, kSteps));
  (void)script->Call("read", {source}, where);
  return [script](const Json& names, const std::string& of_chat) {
    return script->Call("write", {JsonText(names)}, of_chat);
  };
}

}  // namespace tare
