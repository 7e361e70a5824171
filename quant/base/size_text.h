// SPDX-License-Identifier: Apache-2.0
// Sizes for people, in powers of 1000.
#pragma once

#include <cstdint>
#include <string>

namespace tare {

// "412 bytes", "7.41 MB", "12.3 GB": three digits.
std::string SizeText(int64_t bytes);

}  // namespace tare
