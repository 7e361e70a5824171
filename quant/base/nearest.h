// SPDX-License-Identifier: Apache-2.0
// The known names most similar to an unknown one, for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tare {

// Levenshtein's: letters to add, take away or change. Of the first 200 letters: names of files have any length.
size_t Distance(std::string_view a, std::string_view b);

// "; the nearest are 'a', 'b'": at most three, nearest first; nothing where none is known.
std::string NearestText(std::string_view name, const std::vector<std::string>& known);

}  // namespace tare
