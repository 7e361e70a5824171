// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "experiments/text/tokenizer/byte_level.h"
#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/growth.h"
#include "experiments/text/tokenizer/pattern.h"
#include "experiments/text/tokenizer/steps.h"

namespace tare::pipeline {
namespace {

using Step = PreTokenizer::Step;

// GPT-2's words (openai/gpt-2, encoder.py).
constexpr char kByteLevelWords[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Cuts every word into parts, some of which are matches.
Step CutBy(std::function<std::vector<Part>(std::string_view)> parts, Behaviour behaviour) {
  return [parts = std::move(parts), behaviour](Words* words) {
    std::vector<Word> cut;
    for (const Word& word : words->list) {
      for (const Part& part : Cut(parts(word.text), behaviour))
        cut.push_back({word.text.substr(part.begin, part.end - part.begin), word.begins_text && part.begin == 0});
    }
    words->list = std::move(cut);
  };
}

Step CutBy(const Pattern& pattern, Behaviour behaviour) {
  return CutBy([pattern](std::string_view text) { return pattern.Parts(text); }, behaviour);
}

// Each character that the class has is a match.
Step CutByClass(bool (*has)(char32_t), Behaviour behaviour) {
  return CutBy(
      [has](std::string_view text) {
        std::vector<Part> parts;
        for (size_t at = 0; at < text.size();) {
          const size_t begin = at;
          const bool is_match = has(Next(text, &at));
          if (!is_match && !parts.empty() && !parts.back().is_match) {
            parts.back().end = at;
          } else {
            parts.push_back({begin, at, is_match});
          }
        }
        return parts;
      },
      behaviour);
}

// Each word becomes another text.
Step Rewrite(std::function<std::string(const Word&)> made) {
  return [made = std::move(made)](Words* words) {
    for (Word& word : words->list) word.text = words->made.emplace_back(made(word));
  };
}

Step Both(Step first, Step second) {
  return [first = std::move(first), second = std::move(second)](Words* words) {
    first(words);
    second(words);
  };
}

Step Nothing() {
  return [](Words*) {};
}

std::string WithSpace(const Word& word) { return (word.text.starts_with(' ') ? "" : " ") + std::string(word.text); }

Step ParseByteLevel(const Json& json, const std::string& where) {
  const bool adds = GetOr(json, "add_prefix_space", true, where), cuts = GetOr(json, "use_regex", true, where);
  return Both(adds ? Rewrite(WithSpace) : Nothing(),
              cuts ? CutBy(Pattern::Regex(kByteLevelWords, where), Behaviour::kIsolated) : Nothing());
}

Step ParseSplit(const Json& json, const std::string& where) {
  const Pattern pattern = Pattern::Parse(Get<Json>(json, "pattern", where), where);
  const bool invert = GetOr(json, "invert", false, where);
  return CutBy(
      [pattern, invert](std::string_view text) {
        std::vector<Part> parts = pattern.Parts(text);
        for (Part& part : parts) part.is_match = part.is_match != invert;
        return parts;
      },
      ParseBehaviour(Get<Json>(json, "behavior", where), where));
}

Step ParseDigits(const Json& json, const std::string& where) {
  const bool apart = GetOr(json, "individual_digits", false, where);
  return CutByClass(IsNumeric, apart ? Behaviour::kIsolated : Behaviour::kContiguous);
}

Step ParsePunctuation(const Json& json, const std::string& where) {
  const bool given = json.contains("behavior");
  return CutByClass(IsPunctuation, given ? ParseBehaviour(json["behavior"], where) : Behaviour::kIsolated);
}

Step ParseWhitespace(const Json&, const std::string& where) {
  // \w of Rust's regex crate, which reads this one.
  const Pattern pattern = Pattern::Regex(
      R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+)",
      where);
  return CutBy(
      [pattern](std::string_view text) {
        std::vector<Part> parts = pattern.Parts(text);
        for (Part& part : parts) part.is_match = !part.is_match;
        return parts;
      },
      Behaviour::kRemoved);
}

Step ParseWhitespaceSplit(const Json&, const std::string&) { return CutByClass(IsWhitespace, Behaviour::kRemoved); }

enum class Prepend { kNever, kFirst, kAlways };

Prepend ParsePrependScheme(const Json& json, const std::string& where) {
  const bool adds = GetOr(json, "add_prefix_space", true, where);  // of files before there were schemes
  const auto scheme = GetOr<std::string>(json, "prepend_scheme", adds ? "always" : "never", where);
  if (scheme == "always") return Prepend::kAlways;
  if (scheme == "first") return Prepend::kFirst;
  if (scheme == "never") return Prepend::kNever;
  Fail("{}: prepend_scheme: got {}, expected always, first or never", where, scheme);
}

Step ParseMetaspace(const Json& json, const std::string& where) {
  const auto mark = GetOr<std::string>(json, "replacement", "\xe2\x96\x81", where);
  const Prepend prepend = ParsePrependScheme(json, where);
  Step marked = Rewrite([mark, prepend](const Word& word) {
    const auto spaces = static_cast<size_t>(std::ranges::count(word.text, ' '));
    RequireGrowth(word.text.size(), word.text.size() + spaces * mark.size(), "Metaspace");
    std::string text;
    for (const char c : word.text) c == ' ' ? text += mark : text += c;
    const bool here = prepend == Prepend::kAlways || (prepend == Prepend::kFirst && word.begins_text);
    return here && !text.starts_with(mark) ? mark + text : text;
  });
  if (!GetOr(json, "split", true, where)) return marked;
  return Both(std::move(marked), CutBy(Pattern::Literal(mark), Behaviour::kMergedWithNext));
}

size_t BytesOf(const Words& words) {
  size_t bytes = 0;
  for (const Word& word : words.list) bytes += word.text.size();
  return bytes;
}

}  // namespace

PreTokenizer::PreTokenizer(const nlohmann::json& json, const std::string& where) {
  static const Table<Step> table{{"ByteLevel", ParseByteLevel},    {"Split", ParseSplit},
                                 {"Digits", ParseDigits},          {"Metaspace", ParseMetaspace},
                                 {"Whitespace", ParseWhitespace},  {"WhitespaceSplit", ParseWhitespaceSplit},
                                 {"Punctuation", ParsePunctuation}};
  std::vector<Json> objects;
  Flatten(json, where, "pretokenizers", &objects);
  for (const Json& object : objects) {
    steps_.push_back(StepOf(object, where, table));
    if (object["type"].get_ref<const std::string&>() != "ByteLevel") continue;
    ends_in_bytes_ = &object == &objects.back();
    if (!ends_in_bytes_) steps_.push_back(Rewrite([](const Word& word) { return ToAlphabet(word.text); }));
  }
}

void PreTokenizer::Apply(Words* words) const {
  const size_t before = BytesOf(*words);
  for (const Step& step : steps_) {
    step(words);
    RequireGrowth(before, BytesOf(*words), "pre_tokenizer");
  }
}

}  // namespace tare::pipeline
