// SPDX-License-Identifier: Apache-2.0
// Renders Vega-Lite specifications to SVG with Vega itself, in an interpreter inside the program (QuickJS): it needs no
// browser, file or other program, and a figure on the page and the same figure for a paper are byte-identical.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tare {

class Drawing {
 public:
  Drawing();
  ~Drawing();

  // A figure of this specification; what it defines for itself (clips, gradients) is called `name`-..., so that several
  // can stand in one page. Text and thin lines have the colour of the text around. Throws Error where Vega refuses the
  // specification, or warns.
  std::string Svg(const std::string& name, const nlohmann::ordered_json& specification);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace tare
