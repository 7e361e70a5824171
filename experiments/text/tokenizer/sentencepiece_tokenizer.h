// SPDX-License-Identifier: Apache-2.0
// SentencePiece's tokenizer.model. Ids are the library's, except where a text has added tokens: the folder's, and the
// model's control and unknown pieces. They are found first, and the parts between become ids as in transformers: only
// the first (with "legacy", each) gets the model's space in front, none with "add_prefix_space": false, and none loses
// spaces. Long texts are encoded in chunks if that provably changes no id, so that memory does not grow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/tokenizer/added_tokens.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/piece_model.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tare {

// Whether SentencePiece can encode a text in chunks without changing any id. Decided from tokenizer.model's bytes (a
// ModelProto in protobuf's wire format, sentencepiece_model.proto), as the library's interface does not say.
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

ChunkRule RuleOf(const PieceModel& model);  // kWhole also if damaged

// The first safe cut at or after `from`: the offset of a space, or text.size().
size_t FindCut(std::string_view text, size_t from);

class SentencePieceTokenizer : public TokenizerModel {
 public:
  // From the bytes of a tokenizer.model. `where` starts messages. Throws Error if it is damaged.
  SentencePieceTokenizer(std::string_view model, const std::string& where, const pipeline::FolderTokens& folder = {});
  ~SentencePieceTokenizer() override;

  std::vector<int32_t> Encode(std::string_view text) const override;
  std::string Decode(const std::vector<int32_t>& ids) const override;
  std::string Piece(int32_t id) const override;
  int32_t vocabulary() const override { return std::max(pieces(), added_.ids()); }
  std::vector<int32_t> before() const override { return around_.before; }
  std::vector<int32_t> after() const override { return around_.after; }

 private:
  // The model, or the same that neither adds nor removes spaces, for parts of a text.
  struct Part {
    std::shared_ptr<sentencepiece::SentencePieceProcessor> processor;
    ChunkRule rule = ChunkRule::kWhole;
  };
  void AddTokens(const PieceModel& model, const pipeline::FolderTokens& folder, const std::string& where);
  const Part& After() const;  // made when a text first needs it
  int32_t pieces() const;
  void EncodePart(const Part& part, std::string_view text, std::vector<int32_t>* ids) const;

  Part first_;
  mutable Part after_;
  pipeline::AddedTokens added_;
  pipeline::Around around_;
  bool adds_space_, as_it_is_, legacy_, as_llama_cpp_;
};

}  // namespace tare
