// SPDX-License-Identifier: Apache-2.0
// One value of a panel of the cache (kernels/cache/panel.h), by its input and lane.
#pragma once

#include "kernels/cache/panel.h"

namespace tare {

inline float ReadInput(Format format, const std::byte* panel, int input, int lane) {
  float value = 0;
  ReadPanel(format, panel, {input, lane, 0, 0}, 1, &value);
  return value;
}

}  // namespace tare
