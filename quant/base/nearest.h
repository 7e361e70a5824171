// SPDX-License-Identifier: Apache-2.0
// The known names most similar to an unknown one, for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tare {

// Levenshtein's: letters to add, remove or change. Only the first 200 letters count, because file names have any
// length.
size_t Distance(std::string_view a, std::string_view b);

// The known name that differs from the word by at most half of the word's letters, and least; first of those that
// contain a word of three letters or more ("logits": "attn_logits"); null if none does either.
const std::string* NearestOf(std::string_view word, const std::vector<std::string>& known);

// "; the nearest are 'a', 'b'": at most three, nearest first; empty if none is similar.
std::string NearestText(std::string_view name, const std::vector<std::string>& known);

}  // namespace tare
