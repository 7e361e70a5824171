// SPDX-License-Identifier: Apache-2.0
// Renders Vega-Lite specifications to SVG with Vega itself, in an interpreter inside the program (QuickJS). Needs no
// browser, file or other program; a figure on the page and the same figure for a paper are byte-identical.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tare {

class Drawing {
 public:
  Drawing();
  ~Drawing();

  // Draws the specification. Ids that the drawing defines (clips, gradients) start with `name`-, so that several
  // drawings can share a page. Text and thin lines take the colour of the surrounding text. Throws Error if Vega
  // refuses the specification or warns.
  std::string Svg(const std::string& name, const nlohmann::ordered_json& specification);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

// Files that CMake embeds in the program (cmake/embed.cmake): Vega, the specifications of figures, the page's style.

// "vega.js", "figures/bits.json". A NUL follows the last byte. Throws Error for an unknown name.
std::string_view Embedded(std::string_view name);

}  // namespace tare
