// SPDX-License-Identifier: Apache-2.0
// Words of a text, and where they are mentioned in another. A word is a run of ASCII letters, digits and bytes of other
// characters, without case: "1234." has the word 1234, "Harriet's" the words harriet and s.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

struct Mentions {
  size_t count = 0, first = 0, last = 0;  // words before the first and the last mention
};

class TextWords {
 public:
  explicit TextWords(std::string_view text);

  const std::vector<std::string>& all() const { return words_; }
  bool Has(std::string_view word) const;
  // All words of `phrase` in a row; none for a phrase without words.
  Mentions Find(const TextWords& phrase) const;

 private:
  std::vector<std::string> words_, sorted_;
};

}  // namespace tare
