// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/subwords.h"

#include <algorithm>
#include <limits>

#include <unicode/bytestriebuilder.h>

#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/text_to_words.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare::pipeline {
namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

void PieceTable::Add(const std::string& piece, int64_t id, const std::string& where) {
  if (id < 0 || id >= kLargestId) Fail("{}: '{}': got id {}, expected 0 to {}", where, piece, id, kLargestId - 1);
  const auto place = static_cast<size_t>(id);
  if (place >= pieces_.size()) pieces_.resize(place + 1);
  const auto [known, is_new] = ids_.try_emplace(piece, static_cast<int32_t>(id));
  if (!is_new) Fail("{}: got '{}' with ids {} and {}, expected one", where, piece, known->second, id);
  if (!pieces_[place].empty()) Fail("{}: got id {} of '{}' and of '{}'", where, id, pieces_[place], piece);
  pieces_[place] = piece;
}

std::optional<int32_t> PieceTable::Find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string& PieceTable::Piece(int32_t id) const {
  static const std::string none;
  return id >= 0 && id < ids() ? pieces_[static_cast<size_t>(id)] : none;
}

std::array<int32_t, 256> PieceTable::Bytes() const {
  std::array<int32_t, 256> bytes{};
  for (size_t byte = 0; byte < bytes.size(); ++byte) bytes[byte] = Find(Formatted("<0x{:02X}>", byte)).value_or(-1);
  return bytes;
}

PrefixIndex::PrefixIndex(const std::map<std::string_view, int32_t>& texts, const std::string& where) {
  if (texts.empty() || texts.rbegin()->first.empty()) return;
  UErrorCode status = U_ZERO_ERROR;
  icu::BytesTrieBuilder builder(status);
  for (const auto& [text, id] : texts) {
    if (text.size() > kLongestIndexed)
      Fail("{}: id {}: got {} bytes, expected at most {}", where, id, text.size(), kLongestIndexed);
    if (!text.empty()) builder.add({text.data(), static_cast<int32_t>(text.size())}, id, status);
  }
  const icu::StringPiece trie = builder.buildStringPiece(USTRINGTRIE_BUILD_FAST, status);
  if (U_FAILURE(status)) Fail("{}: ICU: an index of {} texts: {}", where, texts.size(), u_errorName(status));
  trie_.assign(trie.data(), static_cast<size_t>(trie.length()));
}

std::unique_ptr<Subwords> ParseSubwords(const nlohmann::json& json, WordsOf words, const std::string& where) {
  if (!json.is_object()) Fail("{}: got {}, expected an object", where, json.type_name());
  const auto type = GetOr<std::string>(json, "type", json.contains("merges") ? "BPE" : "Unigram", where);
  if (type == "BPE") return std::make_unique<Bpe>(json, words, where + ": BPE");
  if (type == "Unigram") return std::make_unique<Unigram>(json, words, where + ": Unigram");
  Fail("{}: got type {}, expected BPE or Unigram", where, type);
}

Unigram::Unigram(const nlohmann::json& json, WordsOf words, const std::string& where)
    : byte_fallback_(GetOr(json, "byte_fallback", false, where)) {
  if (words == WordsOf::kBytes)
    Fail("{}: got the pre-tokenizer ByteLevel, expected another; Tare knows it with BPE alone", where);
  const auto vocabulary = json.find("vocab");
  if (vocabulary == json.end() || !vocabulary->is_array() || vocabulary->empty())
    Fail("{}: got no vocab, expected a list of [piece, score]", where);
  double worst = std::numeric_limits<double>::infinity();
  for (const Json& entry : *vocabulary) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      Fail("{}: vocab: {}: got {}, expected [piece, score]", where, scores_.size(), entry.dump());
    names_.Add(entry[0].get<std::string>(), static_cast<int64_t>(scores_.size()), where + ": vocab");
    scores_.push_back(entry[1].get<double>());
    worst = std::min(worst, scores_.back());
  }
  unknown_score_ = worst - kUnknownPenalty;
  const auto unknown = GetOr<int64_t>(json, "unk_id", -1, where);
  const bool has_unknown = json.contains("unk_id") && !json["unk_id"].is_null();
  if (unknown >= std::ssize(scores_) || (has_unknown && unknown < 0))
    Fail("{}: unk_id: got {}, expected 0 to {}", where, unknown, scores_.size() - 1);
  unknown_ = static_cast<int32_t>(unknown);
  std::map<std::string_view, int32_t> pieces;
  for (int32_t id = 0; id < names_.ids(); ++id) pieces.emplace(names_.Piece(id), id);
  index_ = PrefixIndex(pieces, where + ": vocab");
  byte_ids_ = names_.Bytes();
}

void Unigram::AddUnknown(std::string_view text, std::vector<int32_t>* ids) const {
  // Several unknown characters may together be the text of a piece, which then stands for them.
  if (const std::optional<int32_t> piece = names_.Find(text)) return ids->push_back(*piece);
  const auto known = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] >= 0; };
  if (byte_fallback_ && std::ranges::all_of(text, known)) {
    for (const char c : text) ids->push_back(byte_ids_[static_cast<unsigned char>(c)]);
    return;
  }
  if (unknown_ < 0) Fail("Unigram: got '{}', which no piece spells, and no unk_id", text);
  ids->push_back(unknown_);
}

void Unigram::Encode(std::string_view word, std::vector<int32_t>* ids) const {
  std::vector<Best> best(word.size() + 1);
  const auto offer = [&](size_t end, double score, size_t from, int32_t id) {
    if (best[end].bytes == 0 || score > best[end].score) best[end] = {score, id, static_cast<int32_t>(end - from)};
  };
  for (size_t at = 0; at < word.size();) {
    ThrowIfStopped();  // a word may be the whole text
    size_t next = at;
    Next(word, &next);
    bool whole_character = false;
    index_.ForEachPrefix(word.substr(at), [&](size_t length, int32_t id) {
      offer(at + length, scores_[static_cast<size_t>(id)] + best[at].score, at, id);
      whole_character = whole_character || at + length == next;
    });
    if (!whole_character) offer(next, unknown_score_ + best[at].score, at, unknown_);
    at = next;
  }
  std::vector<std::pair<std::string_view, int32_t>> parts;
  for (size_t end = word.size(); end > 0;) {
    ThrowIfStopped();
    const auto [score, id, bytes] = best[end];
    end -= static_cast<size_t>(bytes);
    if (id == unknown_ && !parts.empty() && parts.back().second == unknown_) {
      parts.back().first = word.substr(end, static_cast<size_t>(bytes) + parts.back().first.size());
    } else {
      parts.emplace_back(word.substr(end, static_cast<size_t>(bytes)), id);
    }
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    part->second == unknown_ ? AddUnknown(part->first, ids) : ids->push_back(part->second);
}

}  // namespace tare::pipeline
