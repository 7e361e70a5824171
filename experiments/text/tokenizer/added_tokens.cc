// SPDX-License-Identifier: Apache-2.0
// The folder's files and tokens; parsing of added tokens, borders, post-processors; AddedTokens, ids around a text.
#include "experiments/text/tokenizer/added_tokens.h"

#include <algorithm>
#include <unordered_map>

#include "experiments/text/tokenizer/characters.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/json.h"

namespace tare::pipeline {
namespace {

constexpr const char *kConfig = "tokenizer_config.json", *kDecoder = "added_tokens_decoder";
// In this order they get ids (SPECIAL_TOKENS_ATTRIBUTES).
constexpr const char* kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

// An empty object where the file is missing.
Json ObjectIn(const std::filesystem::path& checkpoint, const char* name) {
  const std::optional<std::string> text = CheckpointText(checkpoint, name);
  if (!text) return Json::object();
  const std::string where = (checkpoint / name).string();
  Json json = ParseJson(*text, where);
  if (!json.is_object()) Fail("{}: got {}, expected an object", where, json.type_name());
  return json;
}

// "<s>" or {"content": "<s>", ...}: special, without an id.
Json EntryOf(const Json& value, const std::string& where) {
  Json entry = value.is_object() ? value : Json{{"content", value}};
  (void)Get<std::string>(entry, "content", where);
  entry["special"] = true;
  return entry;
}

std::optional<bool> Flag(const Json& config, const char* key, const std::string& where) {
  const auto entry = config.find(key);
  if (entry == config.end() || entry->is_null()) return std::nullopt;
  if (!entry->is_boolean()) Fail("{}: {}: got {}, expected true or false", where, key, entry->dump());
  return entry->get<bool>();
}

// Every key of a token: bos_token, image_token; and the lists of more special ones.
void ReadNamed(const Json& config, const std::string& where, FolderTokens& tokens, std::vector<Json>& extra) {
  for (const auto& [key, value] : config.items()) {
    if (key.ends_with("_token") && (value.is_null() || value.is_string() || value.is_object()))
      tokens.named[key] = value.is_null() ? value : EntryOf(value, where + ": " + key);
    if (key != "extra_special_tokens" && key != "additional_special_tokens") continue;
    for (const Json& token : value) extra.push_back(EntryOf(token, where + ": " + key));
  }
}

void ReadDecoder(const Json& decoder, const std::string& where, FolderTokens& tokens) {
  if (!decoder.is_object()) Fail("{}: got {}, expected an object", where, decoder.type_name());
  for (const auto& [text, value] : decoder.items()) {
    const auto id = ParseNumber<int32_t>(text);
    if (!id || !value.is_object())
      Fail("{}: '{}': got {}, expected an id and its token", where, text, value.type_name());
    tokens.added.push_back(value);
    tokens.added.back()["id"] = *id;
  }
}

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

}  // namespace

std::optional<std::string> FolderTokens::Named(const std::string& name) const {
  const auto found = named.find(name);
  return found == named.end() || found->second.is_null() ? std::nullopt
                                                         : std::optional<std::string>(found->second["content"]);
}

FolderTokens ReadFolderTokens(const std::filesystem::path& checkpoint) {
  const std::string where = (checkpoint / kConfig).string();
  const Json config = ObjectIn(checkpoint, kConfig);
  FolderTokens tokens{.adds_bos = Flag(config, "add_bos_token", where),
                      .adds_eos = Flag(config, "add_eos_token", where)};
  tokens.legacy = Flag(config, "legacy", where).value_or(false);
  tokens.prefix_space = Flag(config, "add_prefix_space", where).value_or(true);
  tokens.as_llama_cpp = Flag(config, "doubles_space", where).value_or(false);  // a GGUF file's
  if (Flag(config, "split_special_tokens", where).value_or(false))
    Fail("{}: split_special_tokens: got true, expected false: texts' special tokens are never cut; try removing it",
         where);
  std::vector<Json> extra;
  ReadNamed(config, where, tokens, extra);
  if (config.contains(kDecoder)) {
    ReadDecoder(config[kDecoder], where + ": " + kDecoder, tokens);
  } else {
    constexpr const char *kNames = "special_tokens_map.json", *kAdded = "added_tokens.json";
    ReadNamed(ObjectIn(checkpoint, kNames), (checkpoint / kNames).string(), tokens, extra);
    const Json texts = ObjectIn(checkpoint, kAdded);
    for (const auto& [text, id] : texts.items())
      tokens.added.push_back(
          {{"id", IntegerOf<int32_t>(id, (checkpoint / kAdded).string() + ": " + text)}, {"content", text}});
    const auto is = [](const Json& token, const Json& text) { return token.is_object() && token["content"] == text; };
    for (Json& token : tokens.added) {
      token["special"] =
          std::ranges::any_of(tokens.named, [&](const auto& named) { return is(named.second, token["content"]); }) ||
          std::ranges::any_of(extra, [&](const Json& one) { return is(one, token["content"]); });
    }
  }
  std::vector<Json>& added = tokens.added;
  std::ranges::stable_sort(added, {}, [](const Json& token) { return token["id"].get<int32_t>(); });
  for (const char* name : kNamed) {
    if (tokens.named.contains(name)) added.push_back(tokens.named[name]);
  }
  for (const auto& [name, token] : tokens.named) added.push_back(token);
  added.insert(added.end(), extra.begin(), extra.end());
  std::erase(added, Json());
  return tokens;
}

Json WithFolderTokens(Json own, const FolderTokens& folder, int32_t pieces,
                      const std::function<std::string(int32_t)>& piece, const std::string& where) {
  if (own.is_null()) own = Json::array();
  if (!own.is_array() || folder.added.empty()) return own;  // AddedTokens refuses what is no list of tokens
  std::unordered_map<std::string, size_t> places;           // in `own`
  std::unordered_map<std::string, int64_t> ids;             // of pieces, once a token is not in `own`
  int64_t next = pieces;
  for (size_t i = 0; i < own.size(); ++i) {
    if (!own[i].is_object()) return own;
    places.emplace(Get<std::string>(own[i], "content", where), i);
    next = std::max(next, Get<int64_t>(own[i], "id", where) + 1);
  }
  for (Json token : folder.added) {
    const auto text = Get<std::string>(token, "content", where);
    const bool has_id = token.contains("id");
    if (const auto place = places.find(text); place != places.end()) {
      Json& known = own[place->second];
      const Json id = known["id"];
      if (has_id) known = std::move(token);
      known["id"] = id;
      continue;
    }
    if (ids.empty()) {
      for (int32_t id = 0; id < pieces; ++id) ids.emplace(piece(id), id);
    }
    const int64_t id = ids.contains(text) ? ids[text] : next;
    if (has_id && token["id"] != id)
      Fail("{}: '{}': got id {}, expected {}, its piece's or the next after all", where, text, token["id"].dump(), id);
    next = std::max(next, id + 1);
    token["id"] = id;
    places.emplace(text, own.size());
    own.push_back(std::move(token));
  }
  return own;
}

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
                                   // It changes offsets alone.
                                   {"ByteLevel", [](const Json&, const std::string&) { return Around(); }}};
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
