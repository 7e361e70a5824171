// SPDX-License-Identifier: Apache-2.0
// Steps of the normalizer, ways to cut a word, steps of the pre-tokenizer, Normalizer and PreTokenizer.
#include "experiments/text/tokenizer/text_to_words.h"

#include "experiments/text/tokenizer/characters.h"

namespace tare::pipeline {
namespace {

using NormalizerStep = Normalizer::Step;

template <NormalForm kForm>
NormalizerStep ParseForm(const Json&, const std::string&) {
  return [](std::string_view text) { return Normalize(text, kForm); };
}

NormalizerStep ParseLowercase(const Json&, const std::string&) { return Lowercase; }
NormalizerStep ParseByteLevelNormalizer(const Json&, const std::string&) { return ToAlphabet; }

NormalizerStep ParseStrip(const Json& json, const std::string& where) {
  const bool left = GetOr(json, "strip_left", true, where), right = GetOr(json, "strip_right", true, where);
  return [left, right](std::string_view text) {
    for (size_t at = 0; left && !text.empty() && IsWhitespace(Next(text, &at)); at = 0) text.remove_prefix(at);
    for (size_t at = text.size(); right && !text.empty() && IsWhitespace(Previous(text, &at)); at = text.size())
      text = text.substr(0, at);
    return std::string(text);
  };
}

NormalizerStep ParsePrepend(const Json& json, const std::string& where) {
  const auto prefix = Get<std::string>(json, "prepend", where);
  return [prefix](std::string_view text) { return text.empty() ? "" : prefix + std::string(text); };
}

NormalizerStep ParseReplace(const Json& json, const std::string& where) {
  const auto content = Get<std::string>(json, "content", where);
  const Pattern pattern = Pattern::Parse(Get<Json>(json, "pattern", where), where);
  return [content, pattern](std::string_view text) { return pattern.Replaced(text, content); };
}

NormalizerStep ParsePrecompiled(const Json& json, const std::string& where) {
  const auto table =
      std::make_shared<const CharacterTable>(Get<std::string>(json, "precompiled_charsmap", where), where);
  return [table](std::string_view text) { return table->Apply(text); };
}

using Step = PreTokenizer::Step;

// Each word is passed on from step to step, which takes stack. Files in use have four.
constexpr size_t kMostSteps = 64;

// GPT-2's words (openai/gpt-2, encoder.py).
constexpr char kByteLevelWords[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Gives the parts of a text, some of which are matches.
using PartsOf = std::function<void(std::string_view, const PartVisitor&)>;

Step CutBy(PartsOf parts_of, Behaviour behaviour) {
  return [parts_of = std::move(parts_of), behaviour](const Word& word, const WordVisitor& visit) {
    Cut cut(behaviour, [&](const Part& part) {
      visit({word.text.substr(part.begin, part.end - part.begin), word.begins_text && part.begin == 0});
    });
    parts_of(word.text, [&](const Part& part) { cut.Add(part); });
    cut.End();
  };
}

Step CutBy(const Pattern& pattern, Behaviour behaviour) {
  return CutBy([pattern](std::string_view text, const PartVisitor& visit) { pattern.ForEachPart(text, visit); },
               behaviour);
}

// Matches and what is between them in each other's place.
PartsOf Inverted(const Pattern& pattern) {
  return [pattern](std::string_view text, const PartVisitor& visit) {
    pattern.ForEachPart(text, [&](const Part& part) { visit({part.begin, part.end, !part.is_match}); });
  };
}

// Each character that the class has is a match.
Step CutByClass(bool (*has)(char32_t), Behaviour behaviour) {
  return CutBy(
      [has](std::string_view text, const PartVisitor& visit) {
        size_t begin = 0;  // of a part that is no match
        for (size_t at = 0; at < text.size();) {
          const size_t from = at;
          if (!has(Next(text, &at))) continue;
          if (begin < from) visit({begin, from, false});
          visit({from, at, true});
          begin = at;
        }
        if (begin < text.size()) visit({begin, text.size(), false});
      },
      behaviour);
}

// Each word becomes another text.
Step Rewrite(std::function<std::string(const Word&)> made) {
  return [made = std::move(made)](const Word& word, const WordVisitor& visit) {
    ThrowIfStopped();
    const std::string text = made(word);
    visit({text, word.begins_text});
  };
}

Step Both(Step first, Step second) {
  return [first = std::move(first), second = std::move(second)](const Word& word, const WordVisitor& visit) {
    first(word, [&](const Word& made) { second(made, visit); });
  };
}

Step Nothing() {
  return [](const Word& word, const WordVisitor& visit) { visit(word); };
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
  const Behaviour behaviour = ParseBehaviour(Get<Json>(json, "behavior", where), where);
  return invert ? CutBy(Inverted(pattern), behaviour) : CutBy(pattern, behaviour);
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
  return CutBy(Inverted(pattern), Behaviour::kRemoved);
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
    const std::string text = Pattern::Literal(" ").Replaced(word.text, mark);
    const bool here = prepend == Prepend::kAlways || (prepend == Prepend::kFirst && word.begins_text);
    return here && !text.starts_with(mark) ? mark + text : text;
  });
  if (!GetOr(json, "split", true, where)) return marked;
  return Both(std::move(marked), CutBy(Pattern::Literal(mark), Behaviour::kMergedWithNext));
}

}  // namespace

Normalizer::Normalizer(const nlohmann::json& json, const std::string& where) {
  static const Table<NormalizerStep> table{{"NFC", ParseForm<NormalForm::kNfc>},
                                           {"NFD", ParseForm<NormalForm::kNfd>},
                                           {"NFKC", ParseForm<NormalForm::kNfkc>},
                                           {"NFKD", ParseForm<NormalForm::kNfkd>},
                                           {"Lowercase", ParseLowercase},
                                           {"ByteLevel", ParseByteLevelNormalizer},
                                           {"Strip", ParseStrip},
                                           {"Prepend", ParsePrepend},
                                           {"Replace", ParseReplace},
                                           {"Precompiled", ParsePrecompiled}};
  ForEachStep(json, where, "normalizers", [&](const Json& step) { steps_.push_back(StepOf(step, where, table)); });
}

std::string Normalizer::Apply(std::string_view text) const {
  std::string normal(text);
  for (const NormalizerStep& step : steps_) {
    ThrowIfStopped();
    normal = step(normal);
    RequireGrowth(text.size(), normal.size(), "normalizer");
  }
  return normal;
}

PreTokenizer::PreTokenizer(const nlohmann::json& json, const std::string& where) {
  static const Table<Step> table{{"ByteLevel", ParseByteLevel},    {"Split", ParseSplit},
                                 {"Digits", ParseDigits},          {"Metaspace", ParseMetaspace},
                                 {"Whitespace", ParseWhitespace},  {"WhitespaceSplit", ParseWhitespaceSplit},
                                 {"Punctuation", ParsePunctuation}};
  ForEachStep(json, where, "pretokenizers", [&](const Json& step) {
    if (ends_in_bytes_) steps_.push_back(Rewrite([](const Word& word) { return ToAlphabet(word.text); }));
    steps_.push_back(StepOf(step, where, table));
    ends_in_bytes_ = step["type"] == "ByteLevel";
  });
  if (steps_.size() > kMostSteps)
    Fail("{}: got {} steps, expected at most {}; is the file damaged?", where, steps_.size(), kMostSteps);
}

void PreTokenizer::ForEachWord(const Word& text, const WordVisitor& visit) const {
  std::vector<size_t> made(steps_.size());  // bytes that each step has made
  const auto take = [&](const auto& next, size_t step, const Word& word) -> void {
    if (step == steps_.size()) return visit(word);
    steps_[step](word, [&](const Word& part) {
      made[step] += part.text.size();
      RequireGrowth(text.text.size(), made[step], "pre_tokenizer");
      next(next, step + 1, part);
    });
  };
  take(take, 0, text);
}

}  // namespace tare::pipeline
