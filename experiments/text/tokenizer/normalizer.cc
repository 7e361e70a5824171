// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/normalizer.h"

#include "experiments/text/tokenizer/byte_level.h"
#include "experiments/text/tokenizer/character_table.h"
#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/growth.h"
#include "experiments/text/tokenizer/pattern.h"
#include "experiments/text/tokenizer/steps.h"

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
  std::vector<Json> objects;
  Flatten(json, where, "normalizers", &objects);
  for (const Json& object : objects) steps_.push_back(StepOf(object, where, table));
}

std::string Normalizer::Apply(std::string_view text) const {
  std::string normal(text);
  for (const NormalizerStep& step : steps_) {
    normal = step(normal);
    RequireGrowth(text.size(), normal.size(), "normalizer");
  }
  return normal;
}

}  // namespace tare::pipeline
