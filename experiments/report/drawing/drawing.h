// SPDX-License-Identifier: Apache-2.0
// Renders Vega-Lite specifications to SVG with Vega itself, in an interpreter inside the program (QuickJS). Needs no
// browser, file or other program; a figure on the page and the same figure for a paper are byte-identical.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

struct JSRuntime;
struct JSContext;

namespace tare {

class Drawing {
 public:
  Drawing();  // an interpreter with Vega loaded: 0.1 s
  ~Drawing();
  Drawing(const Drawing&) = delete;

  // Draws the specification. Ids that the drawing defines (clips, gradients) start with `name`-, so that several
  // drawings can share a page. Text and thin lines take the colour of the surrounding text. Throws Error if Vega
  // refuses the specification or warns.
  std::string Svg(const std::string& name, const nlohmann::ordered_json& specification);

 private:
  void Run(std::string_view text, const char* file);

  JSRuntime* const runtime_;
  JSContext* context_ = nullptr;
};

// Files that CMake embeds in the program (cmake/embed.cmake): Vega, the specifications of figures, the page's style.

// "vega.js", "figures/bits.json". A NUL follows the last byte. Throws Error for an unknown name.
std::string_view Embedded(std::string_view name);

}  // namespace tare
