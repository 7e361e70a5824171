// SPDX-License-Identifier: Apache-2.0
// Files that CMake embeds in the program (cmake/embed.cmake): Vega, the specifications of figures, the page's style.
#pragma once

#include <string_view>

namespace tare {

// "vega.js", "figures/bits.json". A NUL follows the last byte. Throws Error for an unknown name.
std::string_view Embedded(std::string_view name);

}  // namespace tare
