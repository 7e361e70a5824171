// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding as in the tokenizers library (tokenizers/src/models/bpe). A word starts as characters (or bytes);
// of all neighbouring pairs that can merge, the one learnt first merges, the leftmost of equals, until none is left.
// Unknown pieces become bytes (byte_fallback) or unk_token; with ignore_merges, a word that is a piece stays whole.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "experiments/text/tokenizer/piece_table.h"
#include "experiments/text/tokenizer/subwords.h"

namespace tare::pipeline {

class Bpe : public Subwords {
 public:
  // Throws Error for merges of missing pieces, and for dropout.
  Bpe(const nlohmann::json& json, WordsOf words, const std::string& where);

  void Encode(std::string_view word, std::vector<int32_t>* ids) const override;
  const std::string& Piece(int32_t id) const override { return names_.Piece(id); }
  int32_t ids() const override { return names_.ids(); }

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

  PieceTable names_;   // as spelled in the file
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
