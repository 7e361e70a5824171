// SPDX-License-Identifier: Apache-2.0
// Runs chat templates in an interpreter (words.js, values.js, template.js), which bounds their memory, time and depth.
#pragma once

#include <string>

#include "experiments/text/chat/chat_template.h"

namespace tare {

// Throws Error, with the template's line, for what is no part of Jinja that Tare reads; what it returns does for wrong
// types, for unknown filters, tests and functions, and where a bound is met. Numbers are JavaScript's: 1.0 is 1.
ChatWriter ReadChatTemplate(const std::string& source, const std::string& where);

}  // namespace tare
