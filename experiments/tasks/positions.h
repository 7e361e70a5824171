// SPDX-License-Identifier: Apache-2.0
// What a task of a text came to by how many tokens a token was predicted from: a list of
// {"first", "last", "tokens", FIGURE, FIGURE_stderr, ...}, shown.
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
