// SPDX-License-Identifier: Apache-2.0
// SentencePiece's tokenizer.model. Ids are those that the SentencePiece library gives for the whole text, without
// special tokens. Long texts are encoded in chunks if that provably changes no id, so that memory does not grow with
// the text; otherwise a text is encoded whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/tokenizer/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tare {

// Whether a text may be cut into chunks that SentencePiece encodes one by one without changing any id. Decided from the
// bytes of tokenizer.model (a ModelProto in protobuf's wire format, sentencepiece_model.proto), because the library's
// public interface does not say.
//
// The cut is between a character c and a space after it, where c is neither a space nor U+2581, which stands for a
// space inside. It changes no id if
//   - the model is BPE: it merges the best pair of neighbours, the leftmost of equals, as long as a pair is in the
//     vocabulary. If no piece has a space after another character, no merge ever spans the cut, and the merges on
//     either side come in the same order with and without the other side;
//   - the normalizer maps no characters, so nothing reaches across the cut earlier;
//   - normalizing restores the space that begins the second chunk: it is replaced by the one that the library puts
//     before every text (add_dummy_prefix), or left alone (neither that nor remove_extra_whitespaces);
//   - a space is a known piece: neighbouring unknown characters become one token.
enum class ChunkRule {
  kWhole,      // no cut is known to be safe
  kDropSpace,  // the second chunk drops the space it begins with
  kKeepSpace,  // the second chunk begins with its space
};

// What Tare has to know of a tokenizer.model, with the defaults of sentencepiece_model.proto.
struct PieceModel {
  uint64_t type = 1;  // unigram; BPE is 2
  bool space_is_suffix = false;
  std::string_view character_map;  // the table with which the normalizer maps characters (character_table.h), or ""
  bool adds_space_in_front = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;
  bool knows_space = false;
  bool has_inner_space = false;
  bool has_zero_byte = false;  // in a piece, for which SentencePiece's index ends the process
  bool damaged = false;        // the bytes are not understood

  ChunkRule Rule() const;  // kWhole also if damaged
};
PieceModel ReadPieceModel(std::string_view bytes);

// The first safe cut at or after `from`: the offset of a space, or text.size().
size_t FindCut(std::string_view text, size_t from);

class SentencePieceTokenizer : public TokenizerModel {
 public:
  // From the bytes of a tokenizer.model. `where` starts messages. Throws Error if it is damaged.
  SentencePieceTokenizer(std::string_view model, const std::string& where);
  ~SentencePieceTokenizer() override;

  std::vector<int32_t> EncodeFirst(std::string_view text, size_t count) const override;
  std::string Decode(const std::vector<int32_t>& ids) const override;
  std::string Piece(int32_t id) const override;
  int32_t vocabulary() const override;
  std::vector<int32_t> before() const override;
  std::vector<int32_t> after() const override { return {}; }

 private:
  void EncodeChunk(std::string_view chunk, std::vector<int32_t>* ids) const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  ChunkRule chunk_rule_;
};

}  // namespace tare
