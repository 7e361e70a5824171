// SPDX-License-Identifier: Apache-2.0
// Notices to the user that do not stop the run: a library sends them, the program decides where they are shown.
#pragma once

#include <string>

namespace tare {

// Shows each text once after the last call of OnNotice, which says where; nothing before the first.
void Notice(const std::string& text);
void OnNotice(void (*show)(const std::string& text));

}  // namespace tare
