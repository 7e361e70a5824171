// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/tokenizer_json.h"

#include <algorithm>

#include "experiments/text/tokenizer/steps.h"
#include "experiments/text/utf8.h"

namespace tare::pipeline {
namespace {

Json ParseObject(std::string_view text, const std::string& where, BpeLists* lists) {
  Json json = ParseWithLists(text, where, lists);
  if (!json.is_object() || !json.contains("model"))
    Fail("{}: got no model, expected a tokenizer.json of Hugging Face's tokenizers library", where);
  return json;
}

// Ends the walk through a text's words.
struct HasEnough {};

Json Member(const Json& json, const char* key) { return json.contains(key) ? json[key] : Json(); }

}  // namespace

struct TokenizerJson::Parsed {
  BpeLists lists;
  Json json;

  Parsed(std::string_view text, const std::string& where) : json(ParseObject(text, where, &lists)) {}
};

TokenizerJson::TokenizerJson(std::string_view text, const std::string& where)
    : TokenizerJson(Parsed(text, where), where) {}

TokenizerJson::TokenizerJson(Parsed parsed, const std::string& where)
    : normalizer_(Member(parsed.json, "normalizer"), where + ": normalizer"),
      added_(Member(parsed.json, "added_tokens"), normalizer_, where + ": added_tokens"),
      pre_tokenizer_(Member(parsed.json, "pre_tokenizer"), where + ": pre_tokenizer"),
      subwords_(ParseSubwords(parsed.json["model"], std::move(parsed.lists),
                              pre_tokenizer_.ends_in_bytes() ? WordsOf::kBytes : WordsOf::kCharacters,
                              where + ": model")),
      post_processor_(Member(parsed.json, "post_processor"), where + ": post_processor"),
      decoder_(Member(parsed.json, "decoder"), where + ": decoder") {
  for (const std::vector<int32_t>* ids : {&post_processor_.before, &post_processor_.after}) {
    for (const int32_t id : *ids) {
      if (Piece(id).empty()) Fail("{}: post_processor: got id {}, which is no token", where, id);
    }
  }
}

std::vector<int32_t> TokenizerJson::EncodeFirst(std::string_view text, size_t count) const {
  RequireUtf8(text, "text");
  std::vector<int32_t> ids;
  try {
    EncodeUpTo(count, text, &ids);
  } catch (const HasEnough&) {
    ids.resize(count);
  }
  return ids;
}

// Throws HasEnough behind the word or added token that completes `count` ids.
void TokenizerJson::EncodeUpTo(size_t count, std::string_view text, std::vector<int32_t>* ids) const {
  const auto check = [&] {
    if (ids->size() >= count) throw HasEnough();
  };
  for (const AddedTokens::Segment& raw : added_.Split(text)) {
    check();
    if (raw.id) {
      ids->push_back(*raw.id);
      continue;
    }
    const bool begins = raw.text.data() == text.data();
    const std::string normal = normalizer_.empty() ? std::string() : normalizer_.Apply(raw.text);
    const std::string_view rest = normalizer_.empty() ? raw.text : std::string_view(normal);
    for (const AddedTokens::Segment& part : added_.SplitNormalized(rest)) {
      check();
      if (part.id) {
        ids->push_back(*part.id);
        continue;
      }
      pre_tokenizer_.ForEachWord({part.text, begins && part.text.data() == rest.data()}, [&](const Word& word) {
        check();
        if (!word.text.empty()) subwords_->EncodeUpTo(count, word.text, ids);
      });
    }
  }
  check();
}

std::string TokenizerJson::Piece(int32_t id) const {
  const auto added = added_.tokens().find(id);
  return added != added_.tokens().end() ? added->second.content : subwords_->Piece(id);
}

int32_t TokenizerJson::vocabulary() const {
  return std::max(subwords_->ids(), added_.tokens().empty() ? 0 : added_.tokens().rbegin()->first + 1);
}

std::string TokenizerJson::Decode(const std::vector<int32_t>& ids) const {
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    const auto added = added_.tokens().find(id);
    if (added != added_.tokens().end() && added->second.special) continue;
    if (std::string piece = Piece(id); !piece.empty()) pieces.push_back(std::move(piece));
  }
  return decoder_.Apply(std::move(pieces));
}

}  // namespace tare::pipeline
