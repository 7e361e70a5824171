// SPDX-License-Identifier: Apache-2.0
// SentencePiece's tokenizer.model (a ModelProto, sentencepiece_model.proto), as far as its library does not say it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tare {

// With the defaults of sentencepiece_model.proto. What it holds are views of the bytes.
struct PieceModel {
  struct Piece {
    std::string_view text;
    float score = 0;
    int kind = 1;  // normal; 2 is unknown, 3 control, 4 a user's own
  };
  std::vector<Piece> pieces;
  int32_t type = 1;  // unigram; BPE is 2
  int32_t unknown = 0, begin = 1, end = 2, pad = -1;
  bool space_is_suffix = false;
  std::string_view character_map;  // the table with which the normalizer maps characters, or ""
  bool adds_space_in_front = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;
  bool damaged = false;  // the bytes are not understood
};
PieceModel ReadPieceModel(std::string_view bytes);

}  // namespace tare
