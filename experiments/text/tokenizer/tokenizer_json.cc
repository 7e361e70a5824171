// SPDX-License-Identifier: Apache-2.0
// Steps of the decoder, Decoder, the parsed file, and TokenizerJson's encoding and decoding.
#include "experiments/text/tokenizer/tokenizer_json.h"

#include <charconv>
#include <ranges>

#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare::pipeline {
namespace {

using DecoderStep = Decoder::Step;
using Pieces = std::vector<std::string>;

DecoderStep ParseByteLevelDecoder(const Json&, const std::string&) {
  return [](const Pieces& pieces) {
    std::string bytes;
    for (const std::string& piece : pieces) bytes += FromAlphabet(piece).value_or(piece);
    return Pieces{Lossy(bytes)};
  };
}

DecoderStep ParseFuseDecoder(const Json&, const std::string&) {
  return [](const Pieces& pieces) { return Pieces{Listed(pieces, "")}; };
}

// "<0x41>": the byte; -1 for another piece.
int ByteOf(const std::string& piece) {
  unsigned value = 0;
  const bool fits = piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>');
  const char* const end = fits ? piece.data() + 5 : nullptr;
  return fits && std::from_chars(piece.data() + 3, end, value, 16).ptr == end ? static_cast<int>(value) : -1;
}

// Bytes in a row are text where they are valid UTF-8, else U+FFFD each.
DecoderStep ParseByteFallbackDecoder(const Json&, const std::string&) {
  return [](const Pieces& pieces) {
    Pieces decoded;
    std::string bytes;
    const auto flush = [&] {
      if (FindInvalidUtf8(bytes)) {
        decoded.insert(decoded.end(), bytes.size(), "\xef\xbf\xbd");
      } else if (!bytes.empty()) {
        decoded.push_back(bytes);
      }
      bytes.clear();
    };
    for (const std::string& piece : pieces) {
      if (const int byte = ByteOf(piece); byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      decoded.push_back(piece);
    }
    flush();
    return decoded;
  };
}

DecoderStep ParseReplaceDecoder(const Json& json, const std::string& where) {
  const auto content = Get<std::string>(json, "content", where);
  const Pattern pattern = Pattern::Parse(Get<Json>(json, "pattern", where), where);
  return [content, pattern](Pieces pieces) {
    for (std::string& piece : pieces) piece = pattern.Replaced(piece, content);
    return pieces;
  };
}

// Removes the marks that were put before the text from the first piece.
DecoderStep ParseMetaspaceDecoder(const Json& json, const std::string& where) {
  const auto mark = GetOr<std::string>(json, "replacement", "\xe2\x96\x81", where);
  const bool adds = GetOr(json, "add_prefix_space", true, where);
  const bool prepends = GetOr<std::string>(json, "prepend_scheme", adds ? "always" : "never", where) != "never";
  return [mark, prepends](Pieces pieces) {
    const Pattern marks = Pattern::Literal(mark);
    for (std::string& piece : pieces) piece = marks.Replaced(piece, prepends && &piece == &pieces.front() ? "" : " ");
    return pieces;
  };
}

DecoderStep ParseStripDecoder(const Json& json, const std::string& where) {
  const auto content = GetOr<std::string>(json, "content", " ", where);
  const auto start = GetOr<size_t>(json, "start", 0, where), stop = GetOr<size_t>(json, "stop", 0, where);
  return [content, start, stop](Pieces pieces) {
    for (std::string& piece : pieces) {
      if (content.empty()) continue;
      size_t cut = 0;
      for (size_t n = 0; n < start && std::string_view(piece).substr(cut).starts_with(content); ++n)
        cut += content.size();
      piece.erase(0, cut);
      for (size_t n = 0; n < stop && piece.ends_with(content); ++n) piece.resize(piece.size() - content.size());
    }
    return pieces;
  };
}

size_t BytesOf(const Pieces& pieces) {
  return std::ranges::fold_left(pieces | std::views::transform(&std::string::size), size_t{0}, std::plus());
}

}  // namespace

Decoder::Decoder(const nlohmann::json& json, const std::string& where) {
  static const Table<DecoderStep> table{
      {"ByteLevel", ParseByteLevelDecoder}, {"ByteFallback", ParseByteFallbackDecoder}, {"Fuse", ParseFuseDecoder},
      {"Replace", ParseReplaceDecoder},     {"Metaspace", ParseMetaspaceDecoder},       {"Strip", ParseStripDecoder}};
  ForEachStep(json, where, "decoders", [&](const Json& step) { steps_.push_back(StepOf(step, where, table)); });
}

std::string Decoder::Apply(Pieces pieces) const {
  const size_t before = BytesOf(pieces);
  for (const DecoderStep& step : steps_) {
    pieces = step(std::move(pieces));
    RequireGrowth(before, BytesOf(pieces), "decoder");
  }
  return Listed(pieces, steps_.empty() ? " " : "");
}

TokenizerJson::TokenizerJson(std::string_view text, const std::string& where, const FolderTokens& folder) {
  const Json json = ParseJson(text, where);
  if (!json.is_object() || !json.contains("model"))
    Fail("{}: got no model, expected a tokenizer.json of Hugging Face's tokenizers library", where);
  const auto part = [&](const char* key) { return json.contains(key) ? json[key] : Json(); };
  const std::string added = where + ": added_tokens";
  normalizer_ = Normalizer(part("normalizer"), where + ": normalizer");
  pre_tokenizer_ = PreTokenizer(part("pre_tokenizer"), where + ": pre_tokenizer");
  subwords_ = ParseSubwords(json["model"], pre_tokenizer_.ends_in_bytes() ? WordsOf::kBytes : WordsOf::kCharacters,
                            where + ": model");
  const auto piece = [this](int32_t id) { return subwords_->Piece(id); };
  added_ = AddedTokens(WithFolderTokens(part("added_tokens"), folder, subwords_->ids(), piece, added), normalizer_,
                       added, folder);
  around_ = ParsePostProcessor(part("post_processor"), where + ": post_processor");
  decoder_ = Decoder(part("decoder"), where + ": decoder");
  for (const std::vector<int32_t>* ids : {&around_.before, &around_.after}) {
    for (const int32_t id : *ids) {
      if (Piece(id).empty()) Fail("{}: post_processor: got id {}, which is no token", where, id);
    }
  }
}

std::vector<int32_t> TokenizerJson::Encode(std::string_view text) const {
  RequireUtf8(text, "text");
  std::vector<int32_t> ids;
  for (const AddedTokens::Segment& raw : added_.Split(text)) {
    const bool begins = raw.text.data() == text.data();
    const std::string normal = normalizer_.empty() || raw.id ? std::string() : normalizer_.Apply(raw.text);
    const std::string_view rest = normalizer_.empty() ? raw.text : std::string_view(normal);
    for (const AddedTokens::Segment& part : raw.id ? std::vector{raw} : added_.SplitNormalized(rest)) {
      if (part.id) {
        ids.push_back(*part.id);
        continue;
      }
      pre_tokenizer_.ForEachWord({part.text, begins && part.text.data() == rest.data()}, [&](const Word& word) {
        if (!word.text.empty()) subwords_->Encode(word.text, &ids);
      });
    }
  }
  return ids;
}

std::string TokenizerJson::Piece(int32_t id) const {
  const auto added = added_.tokens().find(id);
  return added != added_.tokens().end() ? added->second.content : subwords_->Piece(id);
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
