// SPDX-License-Identifier: Apache-2.0
// Renders Vega-Lite specifications to SVG with Vega itself, in an interpreter inside the program. Needs no browser,
// file or other program; a figure on the page and the same figure for a paper are byte-identical.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "experiments/report/drawing/interpreter.h"

namespace tare {

class Drawing {
 public:
  Drawing() : interpreter_({"draw.js", "vega.js", "vega-lite.js"}) {}  // 0.1 s

  // Draws the specification. Ids that the drawing defines (clips, gradients) start with `name`-, so that several
  // drawings can share a page. Text and thin lines take the colour of the surrounding text. Throws Error if Vega
  // refuses the specification or warns.
  std::string Svg(const std::string& name, const nlohmann::ordered_json& specification);

 private:
  Interpreter interpreter_;
};

}  // namespace tare
