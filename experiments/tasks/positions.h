// SPDX-License-Identifier: Apache-2.0
// What a task of a text came to by how many tokens a token was predicted from: a list of
// {"first", "last", "tokens", FIGURE, FIGURE_stderr, ...}, shown.
#pragma once

#include <string>

#include "quant/file/json.h"

namespace tare {

// For people: a line a range, the figures with their errors.
std::string PositionTable(const nlohmann::ordered_json& ranges);
// "task,first,last,tokens,figure,value,stderr": a line for each figure of each range; without the line of names, which is
// the next one's.
std::string PositionCsv(const std::string& task, const nlohmann::ordered_json& ranges);
std::string PositionCsvHeader();

}  // namespace tare
