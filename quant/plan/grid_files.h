// SPDX-License-Identifier: Apache-2.0
// Replaces grids that a plan, or a list of formats, names by a file of numbers: grid(levels.txt) becomes grid(-1 -0.25
// 0 0.5 1), and later code sees only that. Only plans from the user pass through here: a plan stored in a file cannot
// name another file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tare {

// The text between the parentheses is a file unless its first word is a number. The file holds ParseGrid's text. Throws
// Error, naming the file, if it is missing or not a grid.
std::string WithGridFiles(std::string_view text);

// The files that this process read for it: inputs, which no output may replace.
std::vector<std::string> GridFilesRead();

}  // namespace tare
