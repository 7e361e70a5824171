// SPDX-License-Identifier: Apache-2.0
// Shows the result of a text task by the number of context tokens: a list of {"first", "last", "tokens", FIGURE,
// FIGURE_stderr, ...}.
#pragma once

#include <string>
#include <vector>

#include "quant/file/json_value.h"

namespace tare {

// For people: a line a range, the figures with their errors.
std::string PositionTable(const Json& ranges);
// {"task", "first", "last", "tokens", "figure", "value", "stderr"} for each figure of each range.
std::vector<Json> PositionRows(const std::string& task, const Json& ranges);

}  // namespace tare
