// SPDX-License-Identifier: Apache-2.0
// Regular expressions over names of modules, as configurations write them for Python's re module. PCRE2 reads them
// alike. Both are somebody else's, so their sizes and the steps of a match are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace tare {

class NamePattern {
 public:
  // Throws Error, starting with `where`, for what is no such pattern.
  NamePattern(std::string_view pattern, std::string where);

  // Throw Error for a pattern that takes too long.
  bool MatchesStart(std::string_view name) const;      // re.match
  bool MatchesSomewhere(std::string_view name) const;  // re.search

 private:
  bool Matches(std::string_view name, uint32_t options) const;

  std::string where_;
  std::shared_ptr<const pcre2_real_code_8> code_;
};

}  // namespace tare
