// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/folder_tokens.h"

#include <algorithm>
#include <unordered_map>

#include "experiments/text/tokenizer/steps.h"
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

}  // namespace tare::pipeline
