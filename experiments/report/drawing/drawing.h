// SPDX-License-Identifier: Apache-2.0
// Renders Vega-Lite specifications to SVG with Vega itself, in an interpreter inside the program (QuickJS). Needs no
// browser, file or other program; a figure on the page and the same figure for a paper are byte-identical.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

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

}  // namespace tare
