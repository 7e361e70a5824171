// SPDX-License-Identifier: Apache-2.0
// An interpreter of JavaScript inside the program (QuickJS), without files and network.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

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

// Files that CMake embeds in the program (cmake/embed.cmake): "vega.js", "figures/bits.json", the page's style. A NUL
// follows the last byte. Throws Error for an unknown name.
std::string_view Embedded(std::string_view name);

}  // namespace tare
