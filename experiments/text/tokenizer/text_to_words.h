// SPDX-License-Identifier: Apache-2.0
// From a tokenizer.json's text to its model: the normalizer changes it, the pre-tokenizer cuts it into words.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare::pipeline {

// ---- Shared by the parsers of a tokenizer.json: required keys, lists of steps (objects with a "type"), and how far
// they may stretch a text

using Json = nlohmann::json;

// The value of a required key, or `otherwise`. Throws Error for another type.
template <typename T>
T Get(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end()) Fail("{}: got no {}, expected one", where, key);
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    return IntegerOf<T>(*found, where + ": " + key);
  } else if constexpr (std::same_as<T, std::vector<int32_t>>) {
    if (!found->is_array()) Fail("{}: {}: got {}, expected a list of integers", where, key, found->dump());
    T list;
    for (const Json& value : *found) list.push_back(IntegerOf<int32_t>(value, where + ": " + key));
    return list;
  } else
    try {
      return found->get<T>();
    } catch (const Json::exception&) {
      Fail("{}: {}: got {}, expected another type", where, key, found->dump());
    }
}
template <typename T>
T GetOr(const Json& json, const char* key, T otherwise, const std::string& where) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? otherwise : Get<T>(json, key, where);
}

// Visits the object itself, or the members of a Sequence (in a list named `list`), also of nested ones; null has none.
void ForEachStep(const Json& json, const std::string& where, const char* list, const auto& visit) {
  if (json.is_null()) return;
  if (!json.is_object()) Fail("{}: got {}, expected an object or null", where, json.dump());
  if (Get<std::string>(json, "type", where) != "Sequence") return visit(json);
  const auto members = json.find(list);
  if (members == json.end() || !members->is_array()) Fail("{}: Sequence: got no list {}", where, list);
  for (const Json& member : *members) ForEachStep(member, where, list, visit);
}

template <typename Step>
using Table = std::map<std::string, Step (*)(const Json&, const std::string&)>;

// The step with the object's type. Throws Error, naming the type, if the table does not have it.
template <typename Step>
Step StepOf(const Json& json, const std::string& where, const Table<Step>& table) {
  const auto type = Get<std::string>(json, "type", where);
  if (const auto known = table.find(type); known != table.end()) return known->second(json, where + ": " + type);
  std::string names;
  for (const auto& [name, step] : table) names += name + ", ";
  Fail("{}: got type {}, expected one of: {}Sequence", where, type, names);
}

// There may be any number of steps, and each may replace every character by a long text, so without a limit a small
// file could exhaust memory. Files in use at most triple a text; NFKC's longest expansion is eleven times (U+FDFA).
constexpr size_t kLargestGrowth = 16, kGrowthBytes = 64 << 10;

// Throws Error, naming `step`, if `after` exceeds both 16 times `before` and 64 KiB.
inline void RequireGrowth(size_t before, size_t after, std::string_view step) {
  const size_t most = before * kLargestGrowth + kGrowthBytes;
  if (after > most)
    Fail("{}: got {} bytes from a text of {}, expected at most {}; is the file damaged?", step, after, before, most);
}

// ---- Patterns (pattern.cc)

// A tokenizer.json's pattern: a literal string, or a regular expression as the tokenizers library reads it (Oniguruma,
// Ruby's syntax), run by PCRE2, with corrections: \s and \w are Unicode's White_Space and word characters, ^ and $
// match at lines. A text is cut at its matches part by part, so a long text's parts are never all in memory.
struct Part {
  size_t begin = 0, end = 0;
  bool is_match = false;
};

using PartVisitor = std::function<void(const Part&)>;

class Pattern {
 public:
  // {"String": "..."} or {"Regex": "..."}; `where` starts messages. Throws Error for an expression that PCRE2 refuses.
  static Pattern Parse(const nlohmann::json& json, const std::string& where);
  static Pattern Literal(std::string text);
  static Pattern Regex(const std::string& expression, const std::string& where);

  // The whole text as matches and the parts between them, in order. Throws Error if the text takes more steps than any
  // sane expression needs, or if a match starts before the previous one.
  void ForEachPart(std::string_view text, const PartVisitor& visit) const;
  // The text with every match replaced by `content`. Throws Error as ForEachPart and RequireGrowth do.
  std::string Replaced(std::string_view text, std::string_view content) const;

 private:
  struct Code;  // compiled
  std::string literal_, where_;
  std::shared_ptr<const Code> code_;  // null: a literal
};

// SplitDelimiterBehavior of the tokenizers library.
enum class Behaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
Behaviour ParseBehaviour(const nlohmann::json& json, const std::string& where);

// Takes the parts of a text in order, and gives `visit` the ranges that remain, none empty.
class Cut {
 public:
  Cut(Behaviour behaviour, PartVisitor visit) : behaviour_(behaviour), visit_(std::move(visit)) {}

  void Add(const Part& part);
  // After the last part.
  void End() const {
    if (held_) Give(*held_);
  }

 private:
  void Give(const Part& part) const {
    if (part.begin != part.end) visit_(part);
  }
  bool Joins(const Part& part) const;  // the part before it

  Behaviour behaviour_;
  PartVisitor visit_;
  std::optional<Part> held_;  // what the next part may join
  bool matched_ = false;      // the part before
};

// ---- Normalizers and pre-tokenizers

// The changes to a text before it is cut (tokenizers/src/normalizers).
class Normalizer {
 public:
  using Step = std::function<std::string(std::string_view)>;

  Normalizer() = default;  // none, as of null
  // Throws Error, naming the type, for a type that Tare does not support.
  Normalizer(const nlohmann::json& json, const std::string& where);

  bool empty() const { return steps_.empty(); }
  // Valid UTF-8 in, valid UTF-8 out. Throws Error if the text grows too much.
  std::string Apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

struct Word {
  std::string_view text;
  bool begins_text = false;  // is at the start of the whole text
};

using WordVisitor = std::function<void(const Word&)>;

// tokenizers/src/pre_tokenizers
class PreTokenizer {
 public:
  // Gives the words that it makes of one, in order. A word's text lives while it is visited.
  using Step = std::function<void(const Word&, const WordVisitor&)>;

  PreTokenizer() = default;  // none, as of null
  // Throws Error, naming the type, for a type that Tare does not support.
  PreTokenizer(const nlohmann::json& json, const std::string& where);

  // Each word takes all steps before the next is cut, which bounds memory. Throws Error if the text grows too much.
  void ForEachWord(const Word& text, const WordVisitor& visit) const;
  // Whether the last step writes bytes in GPT-2's alphabet, which is left out, because the model takes the bytes.
  bool ends_in_bytes() const { return ends_in_bytes_; }

 private:
  std::vector<Step> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace tare::pipeline
