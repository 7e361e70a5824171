// SPDX-License-Identifier: Apache-2.0
// The model of a tokenizer.json: turns a word into the ids of its pieces. Unigram is here, byte-pair encoding in bpe.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "experiments/text/tokenizer/piece_table.h"

namespace tare::pipeline {

// Units of words. Bytes are passed as they are; pieces spell them in GPT-2's alphabet.
enum class WordsOf { kCharacters, kBytes };

class Subwords {
 public:
  virtual ~Subwords() = default;
  // Appends the word's ids. One call at a time: earlier words are cached.
  virtual void Encode(std::string_view word, std::vector<int32_t>* ids) const = 0;
  // "" for an id that the model does not have.
  virtual const std::string& Piece(int32_t id) const = 0;
  virtual int32_t ids() const = 0;  // one more than the largest
};

// Type BPE or Unigram; a file without a type is recognised by its keys. Throws Error for other types, by name, and for
// contents that do not fit together.
std::unique_ptr<Subwords> ParseSubwords(const nlohmann::json& json, WordsOf words, const std::string& where);

// Unigram as in the tokenizers library (tokenizers/src/models/unigram): the pieces with the largest sum of scores,
// searched from left to right; of equal ones, the first found. A character that begins no piece is unknown and scores
// 10 less than the worst piece; neighbouring unknown characters are one, and become bytes if all their bytes are pieces
// (byte_fallback).
class Unigram : public Subwords {
 public:
  Unigram(const nlohmann::json& json, WordsOf words, const std::string& where);

  void Encode(std::string_view word, std::vector<int32_t>* ids) const override;
  const std::string& Piece(int32_t id) const override { return pieces_.Piece(id); }
  int32_t ids() const override { return pieces_.ids(); }

 private:
  // The best pieces up to a place in the word.
  struct Best {
    double score = 0;
    int32_t id = 0, bytes = 0;  // of the last of them; no bytes: no pieces end there
  };
  void AddUnknown(std::string_view text, std::vector<int32_t>* ids) const;

  PieceTable pieces_;
  std::vector<double> scores_;  // by id
  PrefixIndex index_;
  bool byte_fallback_;
  std::array<int32_t, 256> byte_ids_{};
  int32_t unknown_ = -1;
  double unknown_score_ = 0;
};

}  // namespace tare::pipeline
