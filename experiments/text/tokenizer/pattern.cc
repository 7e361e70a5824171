// SPDX-License-Identifier: Apache-2.0
// The translation of Ruby's expressions for PCRE2, matching within a budget of steps, the parts of a text, and Cut.
#include "experiments/text/tokenizer/text_to_words.h"

#include <algorithm>
#include <limits>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <unicode/uchar.h>

namespace tare::pipeline {
namespace {

// Steps that a text may take per byte, and in addition for its beginning: patterns in use take some tens per character.
// A match that exceeds the first limit is retried with a larger one, taken from the budget of the whole text.
constexpr int64_t kStepsPerByte = 1000, kStepsOfAnyText = 256 * kStepsPerByte;
constexpr uint32_t kFirstLimit = 1000, kLimitGrowth = 4;
constexpr size_t kStackBytes = size_t{32} << 20;

// Word characters as Oniguruma has them: with the six numbers among Latin-1's signs.
constexpr char kWord[] = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\xb2\xb3\xb9\xbc-\xbe)";

// "{Han}" after \p or \P: the script itself, where PCRE2 would include characters that it shares with other scripts.
std::string Property(const std::string& braces) {
  const bool inverted = braces.starts_with("{^");
  const std::string name = braces.substr(inverted ? 2 : 1, braces.size() - (inverted ? 3 : 2));
  const bool is_script = name.size() > 2 && u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str()) != UCHAR_INVALID_CODE;
  return is_script ? std::string(inverted ? "{^" : "{") + "sc:" + name + "}" : braces;
}

// Translates a Ruby expression for PCRE2.
class Translation {
 public:
  Translation(const std::string& expression, const std::string& where) : from_(expression), where_(where) {
    while (at_ < from_.size()) Step();
  }
  const std::string& text() const { return to_; }

 private:
  void Step() {
    const char c = from_[at_++];
    if (c == '\\' && at_ < from_.size()) return Escape(from_[at_++]);
    const std::string_view rest = std::string_view(from_).substr(at_);
    if (in_class_ && ((c == '[' && !rest.starts_with(':')) || (c == '&' && rest.starts_with('&'))))
      Fail("{}: pattern '{}': got nested brackets at {}, which Tare does not support", where_, from_, at_ - 1);
    to_ += c;
    if (in_class_ && c == '[') return Copy(from_.find(":]", at_) + 2);  // [:alpha:]
    if (c == '[') {
      in_class_ = true;
      if (rest.starts_with('^')) Copy(at_ + 1);
      if (at_ < from_.size() && from_[at_] == ']') Copy(at_ + 1);
    } else if (c == ']') {
      in_class_ = false;
    }
  }
  void Escape(char c) {
    if (c == 's' || c == 'S') {
      to_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
    } else if (c == 'w') {
      to_ += in_class_ ? kWord : "[" + std::string(kWord) + "]";
    } else if (c == 'W' && !in_class_) {
      to_ += "[^" + std::string(kWord) + "]";
    } else if (c == 'h') {
      to_ += in_class_ ? "0-9a-fA-F" : "[0-9a-fA-F]";
    } else if (c == 'W' || c == 'H') {
      Fail("{}: pattern '{}': got \\{} at {}, which Tare does not support there", where_, from_, c, at_ - 2);
    } else if ((c == 'p' || c == 'P') && at_ < from_.size() && from_[at_] == '{') {
      const size_t end = std::min(from_.find('}', at_), from_.size() - 1) + 1;
      to_ += std::string{'\\', c} + Property(from_.substr(at_, end - at_));
      at_ = end;
    } else {
      to_ += std::string{'\\', c};
    }
  }
  void Copy(size_t end) {
    end = std::max(at_, std::min(end, from_.size()));
    to_ += from_.substr(at_, end - at_);
    at_ = end;
  }

  const std::string& from_;
  const std::string& where_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string to_;
};

std::string Message(int error) {
  unsigned char text[256];
  return pcre2_get_error_message(error, text, sizeof text) < 0 ? "unknown" : reinterpret_cast<const char*>(text);
}

}  // namespace

struct Pattern::Code {
  template <typename T>
  using Freed = std::unique_ptr<T, void (*)(T*)>;

  explicit Code(pcre2_code* compiled) : code(compiled, pcre2_code_free) {
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without it the same, slower
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
  // What pcre2_match says of the text from `at` on, within the budget of steps, of which it takes.
  int Match(std::string_view text, size_t at, int64_t* budget) const {
    for (uint32_t limit = kFirstLimit;; limit *= kLimitGrowth) {
      pcre2_set_match_limit(context.get(), limit);
      const int got = pcre2_match(code.get(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK, data.get(), context.get());
      if (got != PCRE2_ERROR_MATCHLIMIT) return got;
      *budget -= limit;
      if (*budget < 0 || limit > std::numeric_limits<uint32_t>::max() / kLimitGrowth) return got;
    }
  }

  Freed<pcre2_code> code;
  Freed<pcre2_match_data> data{pcre2_match_data_create(1, nullptr), pcre2_match_data_free};
  Freed<pcre2_match_context> context{pcre2_match_context_create(nullptr), pcre2_match_context_free};
  Freed<pcre2_jit_stack> stack{pcre2_jit_stack_create(32 << 10, kStackBytes, nullptr), pcre2_jit_stack_free};
};

Pattern Pattern::Parse(const nlohmann::json& json, const std::string& where) {
  if (json.is_object() && json.size() == 1 && json.begin()->is_string()) {
    const std::string text = json.begin()->get<std::string>();
    if (json.contains("String")) return Literal(text);
    if (json.contains("Regex")) return Regex(text, where);
  }
  Fail("{}: pattern: got {}, expected a String or a Regex", where, json.dump());
}

Pattern Pattern::Literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::Regex(const std::string& expression, const std::string& where) {
  Pattern pattern;
  pattern.where_ = where;
  const Translation translation(expression, where);
  const std::string& translated = translation.text();
  int error = 0;
  size_t at = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<const unsigned char*>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code == nullptr)
    Fail("{}: pattern '{}': got an expression that cannot be read: {}, at {}", where, expression, Message(error), at);
  pattern.code_ = std::make_shared<const Code>(code);
  return pattern;
}

void Pattern::ForEachPart(std::string_view text, const PartVisitor& visit) const {
  size_t before = 0;
  const auto match = [&](size_t begin, size_t end) {
    ThrowIfStopped();  // a long text has millions
    if (before != begin) visit({before, begin, false});
    visit({begin, end, true});
    before = end;
  };
  if (code_ == nullptr) {
    for (size_t at = 0; !literal_.empty() && (at = text.find(literal_, at)) != text.npos; at += literal_.size())
      match(at, at + literal_.size());
  } else {
    const size_t* const found = pcre2_get_ovector_pointer(code_->data.get());
    int64_t budget = kStepsOfAnyText + kStepsPerByte * static_cast<int64_t>(text.size());
    for (size_t at = 0; at <= text.size();) {
      const int got = code_->Match(text, at, &budget);
      if (got == PCRE2_ERROR_NOMATCH) break;
      if (got < 0) Fail("{}: pattern: too costly at byte {} of the text: {}", where_, at, Message(got));
      const size_t begin = found[0], end = found[1];
      if (begin < at || end < begin)  // \K in what the expression calls or looks ahead to
        Fail("{}: pattern: got a match from byte {} to {} at byte {} of the text, expected one that goes on", where_,
             begin, end, at);
      match(begin, end);
      at = end;
      if (begin == end) {  // on by one character
        ++at;
        while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
      }
    }
  }
  if (before != text.size()) visit({before, text.size(), false});
}

std::string Pattern::Replaced(std::string_view text, std::string_view content) const {
  std::string replaced;
  replaced.reserve(text.size());
  ForEachPart(text, [&](const Part& part) {
    const std::string_view kept = part.is_match ? content : text.substr(part.begin, part.end - part.begin);
    RequireGrowth(text.size(), replaced.size() + kept.size(), "Replace");
    replaced += kept;
  });
  return replaced;
}

Behaviour ParseBehaviour(const nlohmann::json& json, const std::string& where) {
  static const std::map<std::string, Behaviour> names{{"Removed", Behaviour::kRemoved},
                                                      {"Isolated", Behaviour::kIsolated},
                                                      {"MergedWithPrevious", Behaviour::kMergedWithPrevious},
                                                      {"MergedWithNext", Behaviour::kMergedWithNext},
                                                      {"Contiguous", Behaviour::kContiguous}};
  const auto found = json.is_string() ? names.find(json.get<std::string>()) : names.end();
  if (found == names.end())
    Fail("{}: behavior: got {}, expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", where,
         json.dump());
  return found->second;
}

bool Cut::Joins(const Part& part) const {
  if (behaviour_ == Behaviour::kContiguous) return part.is_match == matched_;
  if (behaviour_ == Behaviour::kMergedWithPrevious) return part.is_match && !matched_;
  return !part.is_match && matched_;
}

void Cut::Add(const Part& part) {
  if (behaviour_ == Behaviour::kIsolated) return Give(part);
  if (behaviour_ == Behaviour::kRemoved) return part.is_match ? void() : Give(part);
  const bool joins = Joins(part);
  matched_ = part.is_match;
  if (held_ && joins) {
    held_->end = part.end;
  } else {
    End();
    held_ = part;
  }
}

}  // namespace tare::pipeline
