// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/piece_decoder.h"

#include <charconv>

#include "experiments/text/tokenizer/byte_level.h"
#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/growth.h"
#include "experiments/text/tokenizer/pattern.h"
#include "experiments/text/tokenizer/steps.h"
#include "experiments/text/utf8.h"

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
  return [](const Pieces& pieces) {
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    return Pieces{text};
  };
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
  size_t bytes = 0;
  for (const std::string& piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

Decoder::Decoder(const nlohmann::json& json, const std::string& where) {
  static const Table<DecoderStep> table{
      {"ByteLevel", ParseByteLevelDecoder}, {"ByteFallback", ParseByteFallbackDecoder}, {"Fuse", ParseFuseDecoder},
      {"Replace", ParseReplaceDecoder},     {"Metaspace", ParseMetaspaceDecoder},       {"Strip", ParseStripDecoder}};
  std::vector<Json> objects;
  Flatten(json, where, "decoders", &objects);
  for (const Json& object : objects) steps_.push_back(StepOf(object, where, table));
}

std::string Decoder::Apply(Pieces pieces) const {
  const size_t before = BytesOf(pieces);
  for (const DecoderStep& step : steps_) {
    pieces = step(std::move(pieces));
    RequireGrowth(before, BytesOf(pieces), "decoder");
  }
  std::string text;
  for (const std::string& piece : pieces) text += (steps_.empty() && &piece != &pieces.front() ? " " : "") + piece;
  return text;
}

}  // namespace tare::pipeline
