// SPDX-License-Identifier: Apache-2.0
// A pattern that a tokenizer.json finds in a text: a literal string, or a regular expression as the tokenizers library
// reads it (Oniguruma, Ruby's syntax), run by PCRE2. Differences that matter for tokenizers are corrected: \s and \w
// are Unicode's White_Space and word characters, ^ and $ match at lines.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "experiments/text/tokenizer/cut.h"

namespace tare::pipeline {

class Pattern {
 public:
  // {"String": "..."} or {"Regex": "..."}; `where` starts messages. Throws Error for an expression that PCRE2 refuses.
  static Pattern Parse(const nlohmann::json& json, const std::string& where);
  static Pattern Literal(std::string text);
  static Pattern Regex(const std::string& expression, const std::string& where);

  // The whole text as matches and the parts between them, in order. Throws Error if the text takes more steps than any
  // sane expression needs, or if a match starts before the previous one.
  void ForEachPart(std::string_view text, const PartVisitor& visit) const;
  // The text with every match replaced by `content`. Throws Error as ForEachPart and RequireGrowth (growth.h) do.
  std::string Replaced(std::string_view text, std::string_view content) const;

 private:
  struct Code;  // compiled
  std::string literal_, where_;
  std::shared_ptr<const Code> code_;  // null: a literal
};

}  // namespace tare::pipeline
