// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/grammar.h"

#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr std::string_view kVowels = "aeiou";

std::string Plural(std::string_view noun) {
  const bool ies = noun.size() > 1 && noun.ends_with('y') && !kVowels.contains(noun[noun.size() - 2]);
  return ies ? std::string(noun.substr(0, noun.size() - 1)) + "ies" : std::string(noun) + "s";
}

}  // namespace

std::string Counted(int64_t n, std::string_view noun) {
  return Formatted("{} {}", n, n == 1 ? std::string(noun) : Plural(noun));
}

std::string WithArticle(std::string_view noun) {
  return Formatted("{} {}", !noun.empty() && kVowels.contains(noun.front()) ? "an" : "a", noun);
}

std::string RangesText(const std::vector<size_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += Formatted("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += Formatted("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string Wrapped(std::string line, size_t column) {
  std::string lines;
  while (line.size() > kLineColumns) {
    const size_t begin = line.find_first_not_of(' ');
    size_t space = line.rfind(' ', kLineColumns);
    if (space == line.npos || space < begin) space = line.find(' ', begin);  // one long word
    if (space == line.npos) break;
    lines += line.substr(0, line.find_last_not_of(' ', space) + 1) + "\n";
    const size_t next = line.find_first_not_of(' ', space);
    if (next == line.npos) return lines;
    line = std::string(column, ' ') + line.substr(next);
  }
  return lines + line + "\n";
}

}  // namespace tare
