// SPDX-License-Identifier: Apache-2.0
// Regular expressions over names of modules, as configurations write them for Python's re module: characters, `.`,
// [classes], \d \w \s and their complements, groups, |, * + ? {m,n} and their lazy forms, ^ $, (?=...) and (?!...).
// Everything else (back references, flags) is refused. A match is a set of positions carried through the pattern, so no
// pattern takes exponential time; one that takes too long is refused as well.
#pragma once

#include <bitset>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

class NamePattern {
 public:
  // Throws Error, starting with `where`, for what is no such pattern.
  NamePattern(std::string_view pattern, std::string where);

  bool MatchesStart(std::string_view name) const;      // re.match
  bool MatchesSomewhere(std::string_view name) const;  // re.search

 private:
  friend class PatternParser;
  using Positions = std::vector<bool>;  // [length of the name + 1]
  enum class Kind { kCharacter, kSequence, kAlternatives, kRepeat, kStart, kEnd, kAhead, kNotAhead };
  struct Node {
    Kind kind = Kind::kSequence;
    std::bitset<256> characters{};
    std::vector<Node> parts{};
    int least = 0, most = 0;  // of kRepeat
  };

  bool Matches(std::string_view name, Positions from) const;
  Positions After(const Node& node, std::string_view name, const Positions& from, int& steps) const;
  Positions AfterRepeat(const Node& node, std::string_view name, const Positions& from, int& steps) const;
  Positions Ahead(const Node& node, std::string_view name, const Positions& from, int& steps) const;

  std::string where_;
  Node whole_;
};

}  // namespace tare
