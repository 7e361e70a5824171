// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <set>

#include "quant/base/message.h"

namespace tare::gguf {
namespace {

struct Token {
  std::string_view text;
  float score = 0;
  int kind = kNormal;
};

std::string Key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

std::vector<double> NumbersPerToken(const Metadata& metadata, std::string_view name, size_t tokens) {
  const auto numbers = metadata.Reals(Key(name));
  if (!numbers) return {};
  if (numbers->size() != tokens)
    Fail("{}: {}: got {} numbers, expected one for each of {} tokens", metadata.where(), Key(name), numbers->size(),
         tokens);
  return *numbers;
}

std::vector<Token> TokensOf(const Metadata& metadata) {
  const auto texts = metadata.Texts(Key("tokens"));
  if (!texts || texts->empty())
    Fail("{}: {}: got none, expected the tokens of the vocabulary", metadata.where(), Key("tokens"));
  const std::vector<double> scores = NumbersPerToken(metadata, "scores", texts->size()),
                            kinds = NumbersPerToken(metadata, "token_type", texts->size());
  std::vector<Token> tokens(texts->size());
  std::set<std::string_view> seen;
  for (size_t i = 0; i < tokens.size(); ++i) {
    Token& token = tokens[i];
    token.text = (*texts)[i];
    if (!seen.insert(token.text).second)
      Fail("{}: {}: got '{}' twice, expected once", metadata.where(), Key("tokens"), Shown(token.text));
    if (!scores.empty()) token.score = static_cast<float>(scores[i]);
    if (kinds.empty()) continue;
    if (!(kinds[i] >= kNormal && kinds[i] <= kByte))
      Fail("{}: {}: got {} for token {}, expected 1 to 6", metadata.where(), Key("token_type"), kinds[i], i);
    token.kind = static_cast<int>(kinds[i]);
  }
  return tokens;
}

// The id that a key gives, if there is such a token.
std::optional<size_t> IdOf(const Metadata& metadata, std::string_view name, size_t tokens) {
  const auto id = metadata.Unsigned(Key(name), 0xffffffffu);
  return id && *id < tokens ? std::optional(static_cast<size_t>(*id)) : std::nullopt;
}

const Cutting& CuttingOf(const Metadata& metadata) {
  const std::string_view name = metadata.Text(Key("pre")).value_or("");
  const auto found = std::ranges::find(kCuttings, name, &Cutting::name);
  if (found != kCuttings.end()) return *found;
  Fail("{}: {}: got '{}', expected {}; try ids instead of a text, or the checkpoint that the file was made from",
       metadata.where(), Key("pre"), Shown(name), CuttingsText());
}

bool BeginsTexts(const Metadata& metadata, bool otherwise) {
  return metadata.Flag(Key("add_bos_token")).value_or(otherwise);
}

// Protobuf's wire format.
class Message {
 public:
  Message& Number(int field, uint64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(value);
    return *this;
  }
  Message& Real(int field, float value) {
    Varint(static_cast<uint64_t>(field) << 3 | 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
    return *this;
  }
  Message& Bytes(int field, std::string_view value) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// A user's own token is found in the text as it is (AddPieceTokens), as a control piece is; one that an old converter
// spelled with U+2581 can only come from merges.
int KindOfPiece(const Token& token) {
  if (token.kind != kUserDefined) return token.kind;
  return token.text.contains("\u2581") ? kNormal : kControl;
}

std::string SentencePieceModel(const Metadata& metadata) {
  if (metadata.Flag(Key("add_eos_token")).value_or(false))
    Fail("{}: {}: got true, expected false with this kind of tokenizer", metadata.where(), Key("add_eos_token"));
  const std::vector<Token> tokens = TokensOf(metadata);
  Message model;
  bool has_bytes = false;
  for (const Token& token : tokens) {
    if (!std::isfinite(token.score))
      Fail("{}: {}: got {} for '{}', expected finite numbers", metadata.where(), Key("scores"), token.score,
           Shown(token.text));
    has_bytes |= token.kind == kByte;
    model.Bytes(1, Message().Bytes(1, token.text).Real(2, token.score).Number(3, KindOfPiece(token)).bytes());
  }
  Message trainer;
  trainer.Number(3, 2).Number(4, tokens.size()).Number(35, has_bytes ? 1 : 0);  // BPE
  const std::pair<int, std::string_view> ids[]{
      {40, "unknown_token_id"}, {41, "bos_token_id"}, {42, "eos_token_id"}, {43, "padding_token_id"}};
  for (const auto& [field, key] : ids) {
    const std::optional<size_t> id = IdOf(metadata, key, tokens.size());
    trainer.Number(field, id ? *id : ~uint64_t{0});  // -1: none
  }
  const bool begins = metadata.Flag(Key("add_space_prefix")).value_or(true),
             squeezes = metadata.Flag(Key("remove_extra_whitespaces")).value_or(false);
  Message normalizer;
  normalizer.Bytes(1, "identity").Number(3, begins ? 1 : 0).Number(4, squeezes ? 1 : 0).Number(5, 1);
  return model.Bytes(2, trainer.bytes()).Bytes(3, normalizer.bytes()).bytes();
}

// A JSON string.
std::string Quoted(std::string_view text, const Metadata& metadata, std::string_view name) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    Fail("{}: {}: got bytes that are not UTF-8, expected text", metadata.where(), Key(name));
  }
}

// Special tokens around a text.
Json PostProcessorOf(const Metadata& metadata, const std::vector<Token>& tokens, bool begins) {
  Json single = Json::array(), special = Json::object();
  const auto add = [&](std::string_view key) {
    const std::optional<size_t> id = IdOf(metadata, key, tokens.size());
    if (!id) Fail("{}: {}: got no id of a token, expected one, as texts are given it", metadata.where(), Key(key));
    const std::string text(tokens[*id].text);
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  if (begins) add("bos_token_id");
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (metadata.Flag(Key("add_eos_token")).value_or(false)) add("eos_token_id");
  if (special.empty()) return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}};
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", single}, {"special_tokens", special}};
}

// The vocabulary has as many entries as the file has tokens, and a JSON object would be slow: it is written as text.
std::string TokenizerJsonText(const Metadata& metadata) {
  const Cutting& cutting = CuttingOf(metadata);
  const std::vector<Token> tokens = TokensOf(metadata);
  const auto merges = metadata.Texts(Key("merges"));
  if (!merges) Fail("{}: {}: got none, expected the merges of byte-level BPE", metadata.where(), Key("merges"));
  std::string added, vocabulary, list;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const Token& token = tokens[id];
    const std::string text = Quoted(token.text, metadata, "tokens");
    if (token.kind == kControl || token.kind == kUserDefined || token.kind == kUnknown) {
      added += Formatted(R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,)"
                         R"("normalized":false,"special":{}}})",
                         added.empty() ? "" : ",\n", id, text, token.kind != kUserDefined);
    } else if (token.kind != kUnused) {
      vocabulary += Formatted("{}{}:{}", vocabulary.empty() ? "" : ",", text, id);
    }
  }
  for (const std::string_view merge : *merges) list += (list.empty() ? "" : ",") + Quoted(merge, metadata, "merges");
  const Json normalizer = NormalizerOf(cutting);
  const Json decoder{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  const bool begins = BeginsTexts(metadata, cutting.begins_texts);
  return Formatted(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],
"normalizer":{},"pre_tokenizer":{},
"post_processor":{},"decoder":{},
"model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,
"fuse_unk":false,"byte_fallback":false,"ignore_merges":{},
"vocab":{{{}}},"merges":[{}]}}}}
)",
      added, normalizer.dump(), PreTokenizerOf(cutting).dump(), PostProcessorOf(metadata, tokens, begins).dump(),
      decoder.dump(), cutting.takes_whole_words, vocabulary, list);
}

// Tokens that llama.cpp's SentencePiece finds in a text as it is. It has no flags in the file: those of Phi-3 take the
// whitespace after them, where the model's name says so. Each part between them gets a space in front.
void AddPieceTokens(const Metadata& metadata, Json& config) {
  std::string model(metadata.Text("general.name").value_or(""));
  std::ranges::transform(model, model.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool is_phi = model.contains("phi-3") || model.contains("phi3");
  const std::set<std::string_view> keep{"<unk>", "<s>", "<|endoftext|>"};
  const std::vector<Token> tokens = TokensOf(metadata);
  Json& found = config["added_tokens_decoder"] = Json::object();
  for (size_t id = 0; id < tokens.size(); ++id) {
    const auto& [text, score, kind] = tokens[id];
    if (kind != kControl && kind != kUserDefined && kind != kUnknown) continue;
    found[std::to_string(id)] = {{"content", std::string(text)},
                                 {"rstrip", is_phi && !keep.contains(text)},
                                 {"normalized", false},
                                 {"special", kind != kUserDefined}};
  }
}

std::string TokenizerConfigText(const Metadata& metadata, bool begins) {
  Json config{{"add_bos_token", begins}, {"add_eos_token", metadata.Flag(Key("add_eos_token")).value_or(false)}};
  config["legacy"] = config["doubles_space"] = true;
  const auto texts = metadata.Texts(Key("tokens"));
  const std::pair<const char*, std::string_view> names[]{{"bos_token", "bos_token_id"}, {"eos_token", "eos_token_id"}};
  for (const auto& [name, key] : names) {
    if (!texts) continue;
    if (const auto id = IdOf(metadata, key, texts->size())) config[name] = std::string((*texts)[*id]);
  }
  if (metadata.Text(Key("model")) == "llama") AddPieceTokens(metadata, config);
  if (const auto chat = metadata.Text("tokenizer.chat_template")) config["chat_template"] = std::string(*chat);
  try {
    return config.dump(2) + "\n";
  } catch (const Json::exception&) {
    Fail("{}: {} or tokenizer.chat_template: got bytes that are not UTF-8, expected text", metadata.where(),
         Key("tokens"));
  }
}

}  // namespace

std::string CuttingsText() { return tare::Listed(kCuttings, ", ", &Cutting::name, " or "); }

Json NormalizerOf(const Cutting& cutting) { return cutting.composes ? Json{{"type", "NFC"}} : Json(); }

Json PreTokenizerOf(const Cutting& cutting) {
  const Json bytes{{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", cutting.pattern.empty()}};
  if (cutting.single_digits)
    return {{"type", "Sequence"},
            {"pretokenizers", Json::array({{{"type", "Digits"}, {"individual_digits", true}}, bytes})}};
  if (cutting.pattern.empty()) return bytes;
  const Json split{
      {"type", "Split"}, {"pattern", {{"Regex", cutting.pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
}

std::optional<std::string> TokenizerText(const Metadata& metadata, std::string_view name) {
  const std::string_view model = metadata.Text(Key("model")).value_or("none");
  const bool is_pieces = model == "llama", is_bytes = model == "gpt2";
  if (model == "none" || model == "no_vocab") return std::nullopt;
  if (name != "tokenizer.model" && name != "tokenizer.json" && name != "tokenizer_config.json") return std::nullopt;
  if (!is_pieces && !is_bytes)
    Fail("{}: {}: got '{}', expected llama or gpt2; try the checkpoint that the file was made from", metadata.where(),
         Key("model"), Shown(model));
  if (name == "tokenizer_config.json")
    return TokenizerConfigText(metadata, BeginsTexts(metadata, is_pieces || CuttingOf(metadata).begins_texts));
  if (name == "tokenizer.model") return is_pieces ? std::optional(SentencePieceModel(metadata)) : std::nullopt;
  return is_bytes ? std::optional(TokenizerJsonText(metadata)) : std::nullopt;
}

}  // namespace tare::gguf
