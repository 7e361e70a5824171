// SPDX-License-Identifier: Apache-2.0
// An interpreter of JavaScript (QuickJS) without files and network; its drawings and chat templates.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "experiments/text/chat/chat_template.h"

struct JSRuntime;
struct JSContext;

namespace tare {

class Interpreter {
 public:
  // Runs the embedded files. steps: of one call at most, each ten thousand calls and turns of loops.
  explicit Interpreter(std::initializer_list<const char*> files, int64_t steps = INT64_MAX);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;

  // What an async function makes of these texts, as text. Throws Error, "where: " and the message, for what it throws
  // and where it takes too many steps, 1 GiB, or 4 MiB of stack; Interrupted after RequestStop.
  std::string Call(const char* function, std::initializer_list<std::string_view> texts, std::string_view where);

 private:
  JSRuntime* const runtime_;
  JSContext* context_ = nullptr;
  const int64_t steps_;
  int64_t steps_left_;
};

// Files that cmake/embed.cmake embeds ("vega.js", "figures/bits.json"), NUL-terminated. Throws Error for unknown names.
std::string_view Embedded(std::string_view name);

// Renders Vega-Lite to SVG with Vega, in the interpreter: needs no other program; page and paper get identical bytes.
class Drawing {
 public:
  Drawing() : interpreter_({"draw.js", "vega.js", "vega-lite.js"}) {}  // 0.1 s

  // Draws the specification. Ids (clips, gradients) start with `name`-, so that drawings can share a page. Text and
  // thin lines take the text's colour. Throws Error if Vega refuses the specification or warns.
  std::string Svg(const std::string& name, const nlohmann::ordered_json& specification);

 private:
  Interpreter interpreter_;
};

// Runs chat templates in an interpreter (words.js, values.js, template.js), which bounds their memory, time and depth.
// Throws Error, with the template's line, for what is no part of Jinja that Tare reads; what it returns does for wrong
// types, for unknown filters, tests and functions, and where a bound is met. Numbers are JavaScript's: 1.0 is 1.
ChatWriter ReadChatTemplate(const std::string& source, const std::string& where);

}  // namespace tare
