// SPDX-License-Identifier: Apache-2.0
// Text to standard output, at once: a run whose output goes nowhere does not go on for hours.
#pragma once

#include <string_view>

namespace tare {

// Throws Error where it cannot be written.
void PutText(std::string_view text);

}  // namespace tare
