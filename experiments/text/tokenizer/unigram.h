// SPDX-License-Identifier: Apache-2.0
// Unigram as in the tokenizers library (tokenizers/src/models/unigram): the pieces with the largest sum of scores,
// searched from left to right; of equal ones, the first found. A character that begins no piece is unknown and scores
// 10 less than the worst piece; neighbouring unknown characters are one, and become bytes if all their bytes are pieces
// (byte_fallback).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/tokenizer/piece_table.h"
#include "experiments/text/tokenizer/prefix_index.h"
#include "experiments/text/tokenizer/subwords.h"

namespace tare::pipeline {

class Unigram : public Subwords {
 public:
  Unigram(const nlohmann::json& json, WordsOf words, const std::string& where);

  void EncodeUpTo(size_t count, std::string_view word, std::vector<int32_t>* ids) const override;
  std::optional<int32_t> Find(const std::string& piece) const override { return pieces_.Find(piece); }
  const std::string& Piece(int32_t id) const override { return pieces_.Piece(id); }
  int32_t ids() const override { return pieces_.ids(); }

 private:
  // The best pieces up to a place in the word.
  struct Best {
    double score = 0;
    size_t from = 0;
    int32_t id = 0;
    bool reached = false;
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
