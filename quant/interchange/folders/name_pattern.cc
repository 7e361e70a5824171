// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/name_pattern.h"

#include <algorithm>
#include <limits>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr size_t kLongest = 1000;  // of a pattern, in bytes; names of modules have tens
constexpr int kDeepest = 32;       // groups inside groups
constexpr int kMostRepeats = 1000;
constexpr int kMostSteps = 20'000;  // parts of the pattern applied to sets of positions

}  // namespace

class PatternParser {
 public:
  using Node = NamePattern::Node;
  using Kind = NamePattern::Kind;

  PatternParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Node Whole() {
    Node node = Alternatives(0);
    if (at_ < text_.size()) Wrong("a ')' without '('");
    return node;
  }

 private:
  [[noreturn]] void Wrong(const char* what) const {
    Fail(
        "{}: got the pattern '{}', at {}: {}; expected a regular expression of Python's without back references and "
        "flags",
        where_, text_, at_, what);
  }
  bool More() const { return at_ < text_.size(); }
  bool Skip(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  char Next(const char* missing) {
    if (!More()) Wrong(missing);
    return text_[at_++];
  }

  Node Alternatives(int depth) {
    if (depth > kDeepest) Wrong("groups too deep");
    Node node{.kind = Kind::kAlternatives};
    do node.parts.push_back(Sequence(depth));
    while (Skip("|"));
    return node;
  }

  Node Sequence(int depth) {
    Node node{.kind = Kind::kSequence};
    while (More() && text_[at_] != '|' && text_[at_] != ')') node.parts.push_back(Repeated(depth));
    return node;
  }

  Node Repeated(int depth) {
    Node part = Single(depth);
    const auto repeat = [&](int least, int most) {
      Skip("?");  // the lazy form matches the same names
      Node node{.kind = Kind::kRepeat, .parts = {}, .least = least, .most = most};
      node.parts.push_back(std::move(part));
      part = std::move(node);
    };
    constexpr int kAny = std::numeric_limits<int>::max();
    if (Skip("*")) {
      repeat(0, kAny);
    } else if (Skip("+")) {
      repeat(1, kAny);
    } else if (Skip("?")) {
      repeat(0, 1);
    } else if (Skip("{")) {
      const int least = Count(), most = !Skip(",") ? least : text_.substr(at_).starts_with("}") ? kAny : Count();
      if (!Skip("}") || least > most) Wrong("no {m,n}");
      repeat(least, most);
    }
    if (More() && std::string_view("*+?{").contains(text_[at_])) Wrong("a repeat of a repeat");
    return part;
  }

  int Count() {
    int count = 0;
    const size_t begin = at_;
    while (More() && text_[at_] >= '0' && text_[at_] <= '9') {
      count = 10 * count + (text_[at_++] - '0');
      if (count > kMostRepeats) Wrong("too many repeats");
    }
    if (at_ == begin) Wrong("no {m,n}");
    return count;
  }

  Node Single(int depth) {
    if (Skip("(")) return Group(depth);
    if (Skip("[")) return Class();
    if (Skip("^")) return {.kind = Kind::kStart};
    if (Skip("$")) return {.kind = Kind::kEnd};
    Node node{.kind = Kind::kCharacter};
    if (Skip(".")) {
      node.characters.set().reset('\n');
    } else if (Skip("\\")) {
      node.characters = Escaped();
    } else {
      const char c = text_[at_];
      if (std::string_view("*+?{").contains(c)) Wrong("a repeat of nothing");
      node.characters.set(static_cast<unsigned char>(c));
      ++at_;
    }
    return node;
  }

  Node Group(int depth) {
    Kind kind = Kind::kSequence;
    if (Skip("?=")) {
      kind = Kind::kAhead;
    } else if (Skip("?!")) {
      kind = Kind::kNotAhead;
    } else if (!Skip("?:") && text_.substr(at_).starts_with("?")) {
      Wrong("an unknown kind of group");
    }
    Node node{.kind = kind};
    node.parts.push_back(Alternatives(depth + 1));
    if (!Skip(")")) Wrong("a '(' without ')'");
    return node;
  }

  std::bitset<256> Escaped() {
    const char c = Next("nothing after '\\'");
    std::bitset<256> set;
    const auto add = [&](char first, char last) {
      for (int i = first; i <= last; ++i) set.set(static_cast<size_t>(i));
    };
    switch (c) {
      case 'd':
      case 'D':
        add('0', '9');
        break;
      case 'w':
      case 'W':
        add('0', '9'), add('a', 'z'), add('A', 'Z'), add('_', '_');
        break;
      case 's':
      case 'S':
        add(' ', ' '), add('\t', '\r');
        break;
      default:
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) Wrong("an unknown escape");
        set.set(static_cast<unsigned char>(c));
        return set;
    }
    return c < 'a' ? ~set : set;
  }

  Node Class() {
    Node node{.kind = Kind::kCharacter};
    const bool other = Skip("^");
    bool first = true;
    while (first || !text_.substr(at_).starts_with("]")) {
      first = false;
      const char begin = Next("a '[' without ']'");
      if (begin == '\\') {
        node.characters |= Escaped();
        continue;
      }
      char end = begin;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        end = text_[at_ + 1];
        at_ += 2;
        if (end == '\\' || static_cast<unsigned char>(end) < static_cast<unsigned char>(begin)) Wrong("no range");
      }
      for (int i = static_cast<unsigned char>(begin); i <= static_cast<unsigned char>(end); ++i)
        node.characters.set(static_cast<size_t>(i));
    }
    ++at_;
    if (other) node.characters.flip();
    return node;
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

NamePattern::NamePattern(std::string_view pattern, std::string where) : where_(std::move(where)) {
  if (pattern.size() > kLongest)
    Fail("{}: got a pattern of {} bytes, expected at most {}", where_, pattern.size(), kLongest);
  whole_ = PatternParser(pattern, where_).Whole();
}

bool NamePattern::MatchesStart(std::string_view name) const {
  Positions from(name.size() + 1, false);
  from[0] = true;
  return Matches(name, std::move(from));
}

bool NamePattern::MatchesSomewhere(std::string_view name) const {
  return Matches(name, Positions(name.size() + 1, true));
}

bool NamePattern::Matches(std::string_view name, Positions from) const {
  int steps = 0;
  return std::ranges::contains(After(whole_, name, from, steps), true);
}

NamePattern::Positions NamePattern::After(const Node& node, std::string_view name, const Positions& from,
                                          int& steps) const {
  if (++steps > kMostSteps)
    Fail("{}: the pattern takes too long on the name '{}'; expected a simpler one", where_, name.substr(0, 100));
  Positions to(from.size(), false);
  switch (node.kind) {
    case Kind::kCharacter:
      for (size_t i = 0; i < name.size(); ++i)
        to[i + 1] = from[i] && node.characters.test(static_cast<unsigned char>(name[i]));
      return to;
    case Kind::kSequence:
      to = from;
      for (const Node& part : node.parts) to = After(part, name, to, steps);
      return to;
    case Kind::kAlternatives:
      for (const Node& part : node.parts) {
        const Positions reached = After(part, name, from, steps);
        for (size_t i = 0; i < to.size(); ++i) to[i] = to[i] || reached[i];
      }
      return to;
    case Kind::kRepeat:
      return AfterRepeat(node, name, from, steps);
    case Kind::kStart:
      to[0] = from[0];
      return to;
    case Kind::kEnd:
      to.back() = from.back();
      return to;
    case Kind::kAhead:
    case Kind::kNotAhead:
      return Ahead(node, name, from, steps);
  }
  TARE_CHECK(false);
}

NamePattern::Positions NamePattern::AfterRepeat(const Node& node, std::string_view name, const Positions& from,
                                                int& steps) const {
  Positions now = from, to(from.size(), false);
  const auto keep = [&] {
    bool grows = false;
    for (size_t i = 0; i < to.size(); ++i) {
      grows = grows || (now[i] && !to[i]);
      to[i] = to[i] || now[i];
    }
    return grows;
  };
  if (node.least == 0) keep();
  for (int times = 1; times <= node.most; ++times) {
    now = After(node.parts[0], name, now, steps);
    if (times >= node.least && !keep()) break;
    if (!std::ranges::contains(now, true)) break;
  }
  return to;
}

NamePattern::Positions NamePattern::Ahead(const Node& node, std::string_view name, const Positions& from,
                                          int& steps) const {
  Positions to(from.size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    if (!from[i]) continue;
    Positions one(from.size(), false);
    one[i] = true;
    to[i] = std::ranges::contains(After(node.parts[0], name, one, steps), true) == (node.kind == Kind::kAhead);
  }
  return to;
}

}  // namespace tare
