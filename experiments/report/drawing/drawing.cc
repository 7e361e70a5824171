// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/drawing/drawing.h"

#include <quickjs/quickjs.h>

#include <array>

#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// Takes the value.
std::string TextOf(JSContext* context, JSValue value) {
  size_t size = 0;
  const char* const text = JS_ToCStringLen(context, &size, value);
  const std::string copy = text == nullptr ? "an exception without a message" : std::string(text, size);
  JS_FreeCString(context, text);
  JS_FreeValue(context, value);
  return copy;
}

// The promise's value once all that it waits for has run; it is taken.
std::string Await(JSContext* context, JSValue promise, const std::string& name) {
  JSContext* of = nullptr;
  while (JS_ExecutePendingJob(JS_GetRuntime(context), &of) > 0) {
  }
  const JSPromiseStateEnum state = JS_PromiseState(context, promise);
  const std::string text = state == JS_PROMISE_PENDING ? "it waits for something that never happens"
                                                       : TextOf(context, JS_PromiseResult(context, promise));
  JS_FreeValue(context, promise);
  if (state != JS_PROMISE_FULFILLED) Fail("figure {}: {}", name, text);
  return text;
}

}  // namespace

Drawing::Drawing() : runtime_(JS_NewRuntime()) {
  TARE_CHECK(runtime_ != nullptr);
  JS_SetMaxStackSize(runtime_, 0);  // the interpreter's guess of where the stack ends is of the thread that made it
  context_ = JS_NewContext(runtime_);
  TARE_CHECK(context_ != nullptr);
  for (const char* file : {"draw.js", "vega.js", "vega-lite.js"}) Run(Embedded(file), file);
  Run("prepare()", "prepare");
}

Drawing::~Drawing() {
  JS_FreeContext(context_);
  JS_FreeRuntime(runtime_);
}

// The text must have a NUL after it.
void Drawing::Run(std::string_view text, const char* file) {
  const JSValue value = JS_Eval(context_, text.data(), text.size(), file, JS_EVAL_TYPE_GLOBAL);
  if (JS_IsException(value)) Fail("{}: {}", file, TextOf(context_, JS_GetException(context_)));
  JS_FreeValue(context_, value);
}

std::string Drawing::Svg(const std::string& name, const Json& specification) {
  ThrowIfStopped();  // a figure takes a part of a second
  const std::string text = JsonText(specification);
  const JSValue global = JS_GetGlobalObject(context_), draw = JS_GetPropertyStr(context_, global, "draw");
  std::array<JSValue, 3> arguments;
  for (size_t i = 0;
       const std::string_view of : {std::string_view(name), std::string_view(text), Embedded("figures/style.json")})
    arguments[i++] = JS_NewStringLen(context_, of.data(), of.size());
  const JSValue result = JS_Call(context_, draw, global, static_cast<int>(arguments.size()), arguments.data());
  for (const JSValue value : {arguments[0], arguments[1], arguments[2], draw, global}) JS_FreeValue(context_, value);
  if (JS_IsException(result)) Fail("figure {}: {}", name, TextOf(context_, JS_GetException(context_)));
  return Await(context_, result, name);
}

}  // namespace tare
