// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/drawing/drawing.h"

#include <quickjs/quickjs.h>

#include <array>
#include <string_view>

#include "quant/base/error.h"
#include "quant/file/json_value.h"

namespace tare {

// One interpreter, with Vega loaded: 0.1 s.
struct Drawing::Engine {
  JSRuntime* runtime = JS_NewRuntime();
  JSContext* context = nullptr;

  Engine() {
    TARE_CHECK(runtime != nullptr);
    JS_SetMaxStackSize(runtime, 0);  // the interpreter's guess of where the stack ends is of the thread that made it
    context = JS_NewContext(runtime);
    TARE_CHECK(context != nullptr);
    for (const char* file : {"draw.js", "vega.js", "vega-lite.js"}) Run(Embedded(file), file);
    Run("prepare()", "prepare");
  }
  ~Engine() {
    JS_FreeContext(context);
    JS_FreeRuntime(runtime);
  }
  Engine(const Engine&) = delete;

  // The text must have a NUL after it.
  void Run(std::string_view text, const char* file) {
    const JSValue value = JS_Eval(context, text.data(), text.size(), file, JS_EVAL_TYPE_GLOBAL);
    if (JS_IsException(value)) Fail("{}: {}", file, TextOf(JS_GetException(context)));
    JS_FreeValue(context, value);
  }

  // Takes the value.
  std::string TextOf(JSValue value) {
    size_t size = 0;
    const char* const text = JS_ToCStringLen(context, &size, value);
    const std::string copy = text == nullptr ? "an exception without a message" : std::string(text, size);
    JS_FreeCString(context, text);
    JS_FreeValue(context, value);
    return copy;
  }

  // The promise's value once all that it waits for has run; it is taken.
  std::string Await(JSValue promise, const std::string& name) {
    JSContext* of = nullptr;
    while (JS_ExecutePendingJob(runtime, &of) > 0) {
    }
    const JSPromiseStateEnum state = JS_PromiseState(context, promise);
    const std::string text = state == JS_PROMISE_PENDING ? "it waits for something that never happens"
                                                         : TextOf(JS_PromiseResult(context, promise));
    JS_FreeValue(context, promise);
    if (state != JS_PROMISE_FULFILLED) Fail("figure {}: {}", name, text);
    return text;
  }

  std::string Call(const char* function, const std::array<std::string_view, 3>& texts) {
    const JSValue global = JS_GetGlobalObject(context);
    const JSValue callee = JS_GetPropertyStr(context, global, function);
    std::array<JSValue, 3> arguments;
    for (size_t i = 0; i < texts.size(); ++i) arguments[i] = JS_NewStringLen(context, texts[i].data(), texts[i].size());
    const JSValue result = JS_Call(context, callee, global, static_cast<int>(arguments.size()), arguments.data());
    for (const JSValue value : arguments) JS_FreeValue(context, value);
    JS_FreeValue(context, callee);
    JS_FreeValue(context, global);
    if (JS_IsException(result)) Fail("figure {}: {}", texts[0], TextOf(JS_GetException(context)));
    return Await(result, std::string(texts[0]));
  }
};

Drawing::Drawing() : engine_(std::make_unique<Engine>()) {}
Drawing::~Drawing() = default;

std::string Drawing::Svg(const std::string& name, const Json& specification) {
  return engine_->Call("draw", {name, JsonText(specification), Embedded("figures/style.json")});
}

}  // namespace tare
