// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/drawing/drawing.h"

#include "quant/file/json.h"

namespace tare {

std::string Drawing::Svg(const std::string& name, const Json& specification) {
  return interpreter_.Call("draw", {name, JsonText(specification), Embedded("figures/style.json")}, "figure " + name);
}

}  // namespace tare
