// SPDX-License-Identifier: Apache-2.0
// English grammar of generated sentences: plurals, articles and ranges of numbers; and their breaks into lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

// "1 token", "2 tokens", "0 queries". `noun` is the singular and takes -s or -ies.
std::string Counted(int64_t n, std::string_view noun);

// "a llama", "an olmo2".
std::string WithArticle(std::string_view noun);

// "4-5,7" of 4, 5 and 7; the numbers ascend.
std::string RangesText(const std::vector<size_t>& numbers);

// The width of lines for people.
inline constexpr size_t kLineColumns = 80;
// Breaks a line between words, and ends the last one; what does not fit continues at the column.
std::string Wrapped(std::string line, size_t column);

}  // namespace tare
