// SPDX-License-Identifier: Apache-2.0
// What is told from the keys of cells: names for people, and whether two cells may stand in one table.
#pragma once

#include <string>

#include "quant/file/json_value.h"

namespace tare {

// "novels-standard q=int4/token perplexity:heldout".
std::string CellText(const Json& key);

// What identifies a cell: its key, with the name of the convention by which texts are cut in the place of the sentences
// that describe it. Versions may describe it otherwise.
Json IdentityOf(Json key);
// IdentityOf as text, for maps and sets: equal for the same cell.
std::string IdentityText(const Json& key);

// The setting in which two cells differ, so that one table cannot hold both; "" if it can.
std::string Clash(const Json& a, const Json& b);

}  // namespace tare
