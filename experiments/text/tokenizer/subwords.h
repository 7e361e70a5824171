// SPDX-License-Identifier: Apache-2.0
// The model of a tokenizer.json, which turns a word into the ids of its pieces: Unigram, or BPE (bpe.cc).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <unicode/bytestrie.h>
#include <nlohmann/json_fwd.hpp>

namespace tare::pipeline {

// Far more than any vocabulary in use: a larger id is damage and would take memory.
constexpr int64_t kLargestId = 100'000'000;

// Hashes strings and views of them alike.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

// Pieces and their ids, in both directions, with the ids of pieces that stand for one byte each.
class PieceTable {
 public:
  // Throws Error for an id out of range, or used by two pieces.
  void Add(const std::string& piece, int64_t id, const std::string& where);

  std::optional<int32_t> Find(std::string_view piece) const;
  const std::string& Piece(int32_t id) const;
  int32_t ids() const { return static_cast<int32_t>(pieces_.size()); }

  // Ids of <0x00> to <0xFF>; -1 for a missing one.
  std::array<int32_t, 256> Bytes() const;

 private:
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;
  std::vector<std::string> pieces_;  // by id
};

// Bytes; bounds the steps at each place of a text. Pieces and added tokens in use have some tens.
constexpr size_t kLongestIndexed = 4096;

// Finds which of many texts are a prefix of another, by ICU's trie: a step per byte of the longest match.
class PrefixIndex {
 public:
  PrefixIndex() = default;
  // Texts with their ids. Empty texts are ignored. Throws Error, with `where`, for one that is longer than 4096 bytes.
  PrefixIndex(const std::map<std::string_view, int32_t>& texts, const std::string& where);

  // visit(length, id) for each text that `text` begins with, the shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const {
    if (trie_.empty()) return;
    icu::BytesTrie trie(trie_.data());
    for (size_t length = 1; length <= text.size(); ++length) {
      const UStringTrieResult result = trie.next(static_cast<unsigned char>(text[length - 1]));
      if (USTRINGTRIE_HAS_VALUE(result)) visit(length, trie.getValue());
      if (!USTRINGTRIE_HAS_NEXT(result)) return;
    }
  }

 private:
  std::string trie_;
};

// Units of words. Bytes are passed as they are; pieces spell them in GPT-2's alphabet.
enum class WordsOf { kCharacters, kBytes };

class Subwords {
 public:
  virtual ~Subwords() = default;
  // Appends the word's ids. One call at a time: earlier words are cached.
  virtual void Encode(std::string_view word, std::vector<int32_t>* ids) const = 0;
  // "" for an id that the model does not have.
  const std::string& Piece(int32_t id) const { return names_.Piece(id); }
  int32_t ids() const { return names_.ids(); }  // one more than the largest

 protected:
  PieceTable names_;  // as spelled in the file
};

// BPE or Unigram, by type, else by keys. Throws Error for other types, and for contents that do not fit together.
std::unique_ptr<Subwords> ParseSubwords(const nlohmann::json& json, WordsOf words, const std::string& where);

// Unigram as in the tokenizers library (tokenizers/src/models/unigram): the pieces with the largest sum of scores, from
// left to right; of equal ones, the first. A character that begins no piece is unknown and scores 10 less than the
// worst; neighbouring unknown ones are one, and become bytes if all are pieces (byte_fallback).
class Unigram : public Subwords {
 public:
  Unigram(const nlohmann::json& json, WordsOf words, const std::string& where);

  void Encode(std::string_view word, std::vector<int32_t>* ids) const override;

 private:
  // The best pieces up to a place in the word.
  struct Best {
    double score = 0;
    int32_t id = 0, bytes = 0;  // of the last of them; no bytes: no pieces end there
  };
  void AddUnknown(std::string_view text, std::vector<int32_t>* ids) const;

  std::vector<double> scores_;  // by id
  PrefixIndex index_;
  bool byte_fallback_;
  std::array<int32_t, 256> byte_ids_{};
  int32_t unknown_ = -1;
  double unknown_score_ = 0;
};

// Byte-pair encoding as in the tokenizers library (tokenizers/src/models/bpe). A word starts as characters (or bytes);
// of all neighbouring pairs that can merge, the one learnt first merges, the leftmost of equals, until none is left.
// Unknown pieces become bytes (byte_fallback) or unk_token; with ignore_merges, a word that is a piece stays whole.
class Bpe : public Subwords {
 public:
  // Throws Error for merges of missing pieces, and for dropout.
  Bpe(const nlohmann::json& json, WordsOf words, const std::string& where);

  void Encode(std::string_view word, std::vector<int32_t>* ids) const override;

 private:
  struct Merge {
    int32_t rank, id;  // rank: smaller if learnt earlier; id: of the joined piece
  };
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // -1: none
  };

  const PieceTable& pieces() const { return bytes_ ? pieces_ : names_; }  // as spelled in words
  void AddPieces(const nlohmann::json& vocabulary, const std::string& where);
  void AddMerges(const nlohmann::json& merges, const std::string& where);
  char32_t NextSymbol(std::string_view text, size_t* at) const;  // a character or a byte
  void AddNeighbours(std::string_view piece);
  // The first place from `from` on where cutting the word does not change the result; its size if there is none.
  size_t FindCut(std::string_view word, size_t from) const;
  void MergeWord(std::string_view word, std::vector<int32_t>* ids) const;  // from its characters or bytes
  void Begin(std::string_view word) const;  // sets symbols_ to the word's characters or bytes
  void MergeSymbols() const;

  PieceTable pieces_;  // as spelled in words, with bytes_
  bool bytes_;
  std::string prefix_, suffix_;  // of characters that do not start a word, and that end one
  bool byte_fallback_, fuse_unknown_, ignore_merges_;
  int32_t unknown_ = -1;
  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<uint64_t, Merge> merges_;  // by the ids of the two pieces
  // Pairs of characters (or bytes) side by side in some piece; no others ever merge.
  std::unordered_set<uint64_t> neighbours_;
  mutable std::unordered_map<std::string, std::vector<int32_t>, TextHash, std::equal_to<>>
      seen_;                             // words merged before
  mutable std::vector<Symbol> symbols_;  // of the current word
};

}  // namespace tare::pipeline
