// SPDX-License-Identifier: Apache-2.0
// Rows of a table as text, each column as wide as its widest cell.
#pragma once

#include <string>
#include <vector>

namespace tare {

// All rows have the same number of cells; the first `left` columns are flush left, the others flush right. Two blanks
// between columns; one where the table would be wider than a terminal's usual 80. No blanks end a line.
std::string InColumns(const std::vector<std::vector<std::string>>& rows, size_t left);

}  // namespace tare
