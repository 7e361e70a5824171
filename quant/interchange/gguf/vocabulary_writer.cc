// SPDX-License-Identifier: Apache-2.0
// TokenList, common keys, SentencePiece, byte-level BPE, the chat template.
#include "quant/interchange/gguf/vocabulary.h"

#include <algorithm>
#include <ranges>

#include "quant/base/message.h"
#include "quant/file/piece_model.h"

namespace tare::gguf {
namespace {

struct NewToken {
  std::string text;
  float score = 0;
  int32_t kind = kUnused;
};
using TokenList = std::vector<NewToken>;  // in the order of their ids

using Parsed = nlohmann::json;  // whose objects find their members fast

Parsed MemberOrNull(const Parsed& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() ? Parsed() : *found;
}

std::string TokenizerKey(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

void PadTo(int64_t tokens, TokenList& list, const std::string& where) {
  if (std::ssize(list) > tokens)
    Fail("{}: got {} tokens, expected at most the {} rows of the embedding", where, list.size(), tokens);
  while (std::ssize(list) < tokens) list.push_back({Formatted("[PAD{}]", list.size())});
}

// As llama.cpp's converter: no text merges into one (its score), the unknown piece stays, one without embedding goes.
void AddFolderTokens(const std::vector<FolderToken>& added, TokenList& list) {
  for (const FolderToken& token : added) {
    const auto at = static_cast<size_t>(token.id);
    if (at >= list.size()) continue;
    const int kind = list[at].kind == kUnknown ? kUnknown : token.special ? kControl : kUserDefined;
    if (list[at].text != token.text || list[at].kind != kind) list[at] = {token.text, -1000, kind};
  }
}

void RequireOnce(const TokenList& list, const std::string& where) {
  std::vector<std::string_view> texts;
  for (const NewToken& token : list) texts.push_back(token.text);
  std::ranges::sort(texts);
  const auto twice = std::ranges::adjacent_find(texts);
  if (twice != texts.end())
    Fail("{}: got the token '{}' twice, expected once; a GGUF file cannot hold it", where, Shown(*twice));
}

// llama.cpp looks for a user's own tokens in the text as it is, before spaces become U+2581.
void SpellUserDefined(TokenList& tokens) {
  constexpr std::string_view kSpace = "\u2581";
  for (auto& [text, score, kind] : tokens) {
    if (kind != kUserDefined) continue;
    for (size_t at = text.find(kSpace); at != text.npos; at = text.find(kSpace, at))
      text.replace(at, kSpace.size(), " ");
  }
}

void AddTokens(const TokenList& tokens, std::string_view model, std::string_view pre, MetadataWriter& out) {
  if (const auto unused = std::ranges::count(tokens, kUnused, &NewToken::kind); unused > 0)
    Notice(Formatted("{}: the embedding has {} rows without a token of the tokenizer; they become unused tokens",
                     out.where(), unused));
  const auto each = [&](auto member) {
    return tokens | std::views::transform(member) | std::ranges::to<std::vector>();
  };
  out.Text(TokenizerKey("model"), model);
  out.Text(TokenizerKey("pre"), pre);
  out.Texts(TokenizerKey("tokens"), each(&NewToken::text));
  if (model == "llama") out.Reals(TokenizerKey("scores"), each(&NewToken::score));
  out.Integers(TokenizerKey("token_type"), each(&NewToken::kind));
}

void AddId(std::string_view key, int64_t id, const TokenList& tokens, MetadataWriter& out) {
  if (id >= 0 && id < std::ssize(tokens)) out.Number(TokenizerKey(key), id);
}

// Ids that end a text; the model's own `end` where there are none.
void AddEnds(const VocabularyUse& use, int64_t end, const TokenList& tokens, MetadataWriter& out) {
  constexpr std::string_view kKeys[]{"eos_token_id", "eot_token_id", "eom_token_id"};
  if (use.ends.size() > std::size(kKeys))
    Fail("{}: eos_token_id: got {} ids, expected at most 3; a GGUF file holds no more", out.where(), use.ends.size());
  if (use.ends.empty()) AddId(kKeys[0], end, tokens, out);
  for (size_t i = 0; i < use.ends.size(); ++i) AddId(kKeys[i], use.ends[i], tokens, out);
}

void AddSentencePiece(std::string_view bytes, const Parsed& json, const VocabularyUse& use, MetadataWriter& out) {
  const std::string where = out.where() + ": tokenizer.model";
  const PieceModel file = ReadPieceModel(bytes);
  const auto refuse = [&](bool wrong, std::string_view got, std::string_view expected) {
    if (wrong) Fail("{}: got {}, expected {}; a GGUF file cannot hold it", where, got, expected);
  };
  if (file.damaged) Fail("{}: got bytes that are no SentencePiece model, expected one", where);
  refuse(file.type != 2, "a model that is not BPE", "SentencePiece's BPE");
  refuse(!file.character_map.empty(), "a table that maps characters", "none");
  refuse(!file.escapes_spaces || file.space_is_suffix, "spaces after words, or as they are", "U+2581 before words");
  refuse(!use.after.empty(), "tokens after a text", "none");
  TokenList tokens;
  for (const PieceModel::Piece& piece : file.pieces)
    tokens.push_back({std::string(piece.text), piece.score, piece.kind});
  PadTo(use.tokens, tokens, where);
  for (const Parsed& token : MemberOrNull(json, "added_tokens")) {
    const Parsed id = MemberOrNull(token, "id"), text = MemberOrNull(token, "content");
    if (id.is_number_integer() && text.is_string())
      AddFolderTokens({{id.get<int64_t>(), text.get<std::string>(), MemberOrNull(token, "special") == true}}, tokens);
  }
  AddFolderTokens(use.added, tokens);
  SpellUserDefined(tokens);
  RequireOnce(tokens, where);
  AddTokens(tokens, "llama", "default", out);
  AddId("bos_token_id", file.begin, tokens, out);
  AddEnds(use, file.end, tokens, out);
  AddId("unknown_token_id", file.unknown, tokens, out);
  AddId("padding_token_id", file.pad, tokens, out);
  out.Flag(TokenizerKey("add_bos_token"), !use.before.empty());
  out.Flag(TokenizerKey("add_eos_token"), false);
  out.Flag(TokenizerKey("add_space_prefix"), file.adds_space_in_front);
  out.Flag(TokenizerKey("remove_extra_whitespaces"), file.removes_extra_spaces);
}

// Without what offsets alone depend on.
Parsed WithoutOffsets(Parsed json) {
  if (json.is_object()) json.erase("trim_offsets");
  if (json.is_object() && json.contains("use_regex") && json["use_regex"] == true) json.erase("use_regex");
  if (json.is_structured()) {
    for (Parsed& member : json) member = WithoutOffsets(member);
  }
  return json;
}

bool SameStep(const Parsed& theirs, const Json& ours) {
  return WithoutOffsets(theirs) == WithoutOffsets(Parsed::parse(ours.dump()));
}

const Cutting& CuttingLike(const Parsed& tokenizer, const std::string& where) {
  const bool whole = MemberOrNull(tokenizer["model"], "ignore_merges") == true;
  for (const Cutting& cutting : kCuttings) {
    if (cutting.takes_whole_words == whole && SameStep(MemberOrNull(tokenizer, "normalizer"), NormalizerOf(cutting)) &&
        SameStep(MemberOrNull(tokenizer, "pre_tokenizer"), PreTokenizerOf(cutting)))
      return cutting;
  }
  Fail("{}: got normalizer, pre_tokenizer and ignore_merges that llama.cpp has no name for, expected those of {}",
       where, CuttingsText());
}

int64_t IdIn(const Parsed& id, int64_t tokens, const std::string& where) {
  if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= tokens)
    Fail("{}: got id {}, expected 0 to {}, as the embedding has rows", where, id.dump(), tokens - 1);
  return id.get<int64_t>();
}

TokenList BytePairs(const Parsed& tokenizer, const VocabularyUse& use, const std::string& where) {
  const int64_t tokens = use.tokens;
  TokenList list;
  PadTo(tokens, list, where);
  const Parsed vocabulary = MemberOrNull(tokenizer["model"], "vocab");
  if (!vocabulary.is_object()) Fail("{}: model: vocab: got none, expected the tokens and their ids", where);
  for (const auto& [text, id] : vocabulary.items()) {
    const auto at = static_cast<size_t>(IdIn(id, tokens, where + ": vocab"));
    list[at] = {text, 0, kNormal};
  }
  for (const Parsed& added : MemberOrNull(tokenizer, "added_tokens")) {
    const auto at = static_cast<size_t>(IdIn(MemberOrNull(added, "id"), tokens, where + ": added_tokens"));
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (MemberOrNull(added, key) == true)
        Fail("{}: added_tokens: got {} for id {}, expected false; a GGUF file cannot hold it", where, key, at);
    }
    if (!MemberOrNull(added, "content").is_string()) Fail("{}: added_tokens: got no content for id {}", where, at);
    list[at] = {added["content"], 0, MemberOrNull(added, "special") == true ? kControl : kUserDefined};
  }
  AddFolderTokens(use.added, list);
  RequireOnce(list, where);
  return list;
}

// Written "a b", or as pairs.
std::vector<std::string> MergesOf(const Parsed& model, const std::string& where) {
  std::vector<std::string> merges;
  for (const Parsed& merge : MemberOrNull(model, "merges")) {
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!is_pair && !merge.is_string()) Fail("{}: merges: got {}, expected two tokens", where, merge.dump());
    merges.push_back(is_pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                             : merge.get<std::string>());
  }
  return merges;
}

void AddBytePairs(const Parsed& tokenizer, const VocabularyUse& use, MetadataWriter& out) {
  const std::string where = out.where() + ": tokenizer.json";
  const Cutting& cutting = CuttingLike(tokenizer, where);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Parsed value = MemberOrNull(tokenizer["model"], key);
    if (!value.is_null() && value != "")
      Fail("{}: model: {}: got {}, expected none; a GGUF file cannot hold it", where, key, value.dump());
  }
  const TokenList tokens = BytePairs(tokenizer, use, where);
  AddTokens(tokens, "gpt2", cutting.name, out);
  out.Texts(TokenizerKey("merges"), MergesOf(tokenizer["model"], where));
  if (!use.before.empty()) AddId("bos_token_id", use.before[0], tokens, out);
  AddEnds(use, use.after.empty() ? -1 : use.after[0], tokens, out);
  if (!use.after.empty() && !use.ends.empty() && use.after[0] != use.ends[0])
    Fail("{}: got id {} after a text, expected {}, which ends one; a GGUF file cannot hold it", where, use.after[0],
         use.ends[0]);
  out.Flag(TokenizerKey("add_bos_token"), !use.before.empty());
  out.Flag(TokenizerKey("add_eos_token"), !use.after.empty());
}

void AddChatTemplate(const std::optional<std::string>& own, const std::optional<std::string>& config,
                     MetadataWriter& out) {
  if (own) return out.Text("tokenizer.chat_template", *own);
  if (!config) return;
  const Parsed text = MemberOrNull(ParseJson(*config, out.where() + ": tokenizer_config.json"), "chat_template");
  if (text.is_string()) out.Text("tokenizer.chat_template", text.get<std::string>());
}

}  // namespace

bool AddVocabulary(const std::function<std::optional<std::string>(const std::string& name)>& file,
                   const VocabularyUse& use, MetadataWriter& out) {
  const std::optional<std::string> json = file("tokenizer.json"), model = file("tokenizer.model");
  if (!json && !model) return false;
  if (use.before.size() > 1 || use.after.size() > 1)
    Fail("{}: got {} tokens before a text and {} after it, expected at most one of each; a GGUF file cannot hold them",
         out.where(), use.before.size(), use.after.size());
  const Parsed tokenizer = json ? ParseJson(*json, out.where() + ": tokenizer.json") : Parsed();
  if (MemberOrNull(MemberOrNull(tokenizer, "model"), "type") == "BPE" &&
      MemberOrNull(tokenizer, "pre_tokenizer").dump().contains("ByteLevel")) {
    AddBytePairs(tokenizer, use, out);
  } else if (model) {
    AddSentencePiece(*model, tokenizer, use, out);
  } else {
    Fail("{}: tokenizer.json: got a model that is not byte-level BPE, expected that, or a tokenizer.model beside it",
         out.where());
  }
  AddChatTemplate(file("chat_template.jinja"), file("tokenizer_config.json"), out);
  return true;
}

}  // namespace tare::gguf
