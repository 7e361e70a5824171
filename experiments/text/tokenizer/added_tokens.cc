// SPDX-License-Identifier: Apache-2.0
// The parser of an added token, borders of words and spaces, post-processors, AddedTokens, and the ids around a text.
#include "experiments/text/tokenizer/added_tokens.h"

#include <algorithm>

#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/steps.h"

namespace tare::pipeline {
namespace {

AddedToken ParseToken(const Json& json, const std::string& where) {
  if (!json.is_object()) Fail("{}: got {}, expected an object", where, json.dump());
  const auto id = Get<int64_t>(json, "id", where);
  AddedToken token{.content = Get<std::string>(json, "content", where),
                   .single_word = GetOr(json, "single_word", false, where),
                   .lstrip = GetOr(json, "lstrip", false, where),
                   .rstrip = GetOr(json, "rstrip", false, where),
                   .special = GetOr(json, "special", false, where)};
  token.normalized = GetOr(json, "normalized", !token.special, where);
  if (id < 0 || id >= kLargestId)
    Fail("{}: '{}': got id {}, expected 0 to {}", where, token.content, id, kLargestId - 1);
  token.id = static_cast<int32_t>(id);
  return token;
}

bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  size_t before = begin, after = end;
  return (begin > 0 && IsWord(Previous(text, &before))) || (end < text.size() && IsWord(Next(text, &after)));
}

size_t BeforeWhitespace(std::string_view text, size_t at, size_t least) {
  for (size_t before = at; at > least; at = before) {
    if (!IsWhitespace(Previous(text, &before))) break;
  }
  return at;
}

size_t AfterWhitespace(std::string_view text, size_t at) {
  for (size_t after = at; at < text.size(); at = after) {
    if (!IsWhitespace(Next(text, &after))) break;
  }
  return at;
}

// Files in use have up to four. Every text gets them, so a small file with many could exhaust memory.
constexpr size_t kMostAround = 64;

void RequireFew(const Around& around, const std::string& where) {
  if (around.before.size() + around.after.size() > kMostAround)
    Fail("{}: got more than {} ids around a text, expected a few; is the file damaged?", where, kMostAround);
}

Around ParseTemplate(const Json& json, const std::string& where) {
  const Json single = Get<Json>(json, "single", where), tokens = GetOr(json, "special_tokens", Json::object(), where);
  if (!single.is_array()) Fail("{}: single: got {}, expected a list", where, single.dump());
  Around around;
  bool seen = false;
  for (const Json& item : single) {
    if (item.is_object() && item.contains("Sequence")) {
      if (seen) Fail("{}: single: got the text twice, expected it once", where);
      seen = true;
      continue;
    }
    if (!item.is_object() || !item.contains("SpecialToken"))
      Fail("{}: single: got {}, expected a Sequence or a SpecialToken", where, item.dump());
    const auto name = Get<std::string>(item["SpecialToken"], "id", where);
    if (!tokens.is_object() || !tokens.contains(name))
      Fail("{}: special_tokens: got no '{}', which single names", where, name);
    for (const int32_t id : Get<std::vector<int32_t>>(tokens[name], "ids", where))
      (seen ? around.after : around.before).push_back(id);
    RequireFew(around, where);
  }
  return around;
}

// ["</s>", 2]
int32_t IdOf(const Json& pair, const std::string& where) {
  if (!pair.is_array() || pair.size() != 2) Fail("{}: got {}, expected [token, id]", where, pair.dump());
  return IntegerOf<int32_t>(pair[1], where);
}

Around ParseClsSep(const Json& json, const std::string& where) {
  return {{IdOf(Get<Json>(json, "cls", where), where)}, {IdOf(Get<Json>(json, "sep", where), where)}};
}

Around ParseByteLevelProcessor(const Json&, const std::string&) { return {}; }  // changes offsets alone

}  // namespace

AddedTokens::AddedTokens(const nlohmann::json& json, const Normalizer& normalizer, const std::string& where,
                         const FolderTokens& folder) {
  if (!json.is_array()) Fail("{}: got {}, expected a list", where, json.dump());
  for (const Json& entry : json) {
    AddedToken token = ParseToken(entry, where);
    if (token.normalized) token.content = normalizer.Apply(token.content);
    if (token.content.empty()) continue;
    const auto [place, is_new] = tokens_.emplace(token.id, token);
    if (!is_new) Fail("{}: got id {} of '{}' and of '{}'", where, token.id, place->second.content, token.content);
  }
  using Texts = std::map<std::string_view, int32_t>;  // of equal ones the smallest id counts
  std::map<size_t, Texts, std::greater<>> raw;        // by length for llama.cpp, else at 0
  Texts normalized;
  for (const auto& [id, token] : tokens_)
    (token.normalized ? normalized : raw[folder.as_llama_cpp ? token.content.size() : 0]).emplace(token.content, id);
  for (const auto& [length, texts] : raw) raw_.emplace_back(texts, where);
  normalized_ = PrefixIndex(normalized, where);
}

std::vector<AddedTokens::Segment> AddedTokens::Split(std::string_view text,
                                                     std::span<const PrefixIndex> searches) const {
  std::vector<Segment> segments;
  if (!text.empty()) segments.push_back({text, std::nullopt});
  for (const PrefixIndex& index : searches) {
    for (const Segment& segment : std::exchange(segments, {}))
      segment.id ? segments.push_back(segment) : Search(segment.text, index, &segments);
  }
  return segments;
}

void AddedTokens::Search(std::string_view text, const PrefixIndex& index, std::vector<Segment>* segments) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    std::optional<int32_t> longest;
    index.ForEachPrefix(text.substr(at), [&](size_t, int32_t id) { longest = id; });
    if (!longest) {
      constexpr size_t kStep = 1 << 20;
      if (++at % kStep == 0) ThrowIfStopped();  // a long text has a hundred of these
      continue;
    }
    const AddedToken& token = tokens_.at(*longest);
    size_t begin = at, end = at + token.content.size();
    at = end;
    if (token.single_word && TouchesWord(text, begin, end)) continue;
    if (token.lstrip) begin = BeforeWhitespace(text, begin, done);
    if (token.rstrip) end = AfterWhitespace(text, end);
    if (done < begin) segments->push_back({text.substr(done, begin - done), std::nullopt});
    segments->push_back({text.substr(begin, end - begin), token.id});
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) segments->push_back({text.substr(done), std::nullopt});
}

Around ParsePostProcessor(const nlohmann::json& json, const std::string& where) {
  static const Table<Around> table{{"TemplateProcessing", ParseTemplate},
                                   {"RobertaProcessing", ParseClsSep},
                                   {"BertProcessing", ParseClsSep},
                                   {"ByteLevel", ParseByteLevelProcessor}};
  Around all;
  ForEachStep(json, where, "processors", [&](const Json& step) {
    const Around around = StepOf(step, where, table);
    all.before.insert(all.before.begin(), around.before.begin(), around.before.end());
    all.after.insert(all.after.end(), around.after.begin(), around.after.end());
    RequireFew(all, where);
  });
  return all;
}

}  // namespace tare::pipeline
