// SPDX-License-Identifier: Apache-2.0
// Grids that a plan, or a list of formats, names by a file of numbers: grid(levels.txt) becomes grid(-1 -0.25 0 0.5 1),
// which is all that anybody after it sees. Only what a user gives goes through here: a plan that a file has stored can
// name no other file.
#pragma once

#include <string>
#include <string_view>

namespace tare {

// What stands between the parentheses is a file unless its first word is a number. The file: ParseGrid's text. Throws
// Error, naming the file, where it is missing or no grid.
std::string WithGridFiles(std::string_view text);

}  // namespace tare
