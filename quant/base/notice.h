// SPDX-License-Identifier: Apache-2.0
// What a user should know of, and that stops nothing: a library says it, the program decides where it goes.
#pragma once

#include <string>

namespace tare {

// Each text once in a process. Goes nowhere until the program says where.
void Notice(const std::string& text);
void OnNotice(void (*show)(const std::string& text));

}  // namespace tare
