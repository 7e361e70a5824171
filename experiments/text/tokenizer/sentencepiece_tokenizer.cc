// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "experiments/text/tokenizer/character_table.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"

namespace tare {
namespace {

// About 1,000 tokens. SentencePiece takes 85 bytes of memory per byte of text, and time that grows faster than the
// text: 16 MB take 1.4 GB and 20 s whole, 70 MB and 4.4 s in chunks.
constexpr size_t kChunkBytes = 4096;

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string_view model, const std::string& where)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()), chunk_rule_(FindChunkRule(model)) {
  if (const auto map = CharacterMapOf(model)) pipeline::CheckCharacterMap(*map, where);
  if (HasZeroByteInPiece(model))
    Fail("{}: got a piece with a zero byte, expected text; try copying the checkpoint again", where);
  constexpr int kFatalOnly = 3;  // what it would print comes back as a status
  sentencepiece::SetMinLogLevel(kFatalOnly);
  const auto status = processor_->LoadFromSerializedProto(model);
  if (!status.ok() || model.empty() || !CharacterMapOf(model)) {
    Fail(
        "{}: got {} bytes that SentencePiece cannot read ({}), expected a tokenizer.model; try copying the checkpoint "
        "again",
        where, model.size(), status.ToString());
  }
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

int32_t SentencePieceTokenizer::vocabulary() const { return processor_->GetPieceSize(); }

std::vector<int32_t> SentencePieceTokenizer::before() const {
  const int id = processor_->bos_id();
  return id >= 0 ? std::vector<int32_t>{id} : std::vector<int32_t>{};
}

std::string SentencePieceTokenizer::Piece(int32_t id) const {
  return id >= 0 && id < vocabulary() ? processor_->IdToPiece(id) : "";
}

std::string SentencePieceTokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text;
  const auto status = processor_->Decode(ids, &text);
  if (!status.ok()) Fail("ids: SentencePiece cannot decode them ({})", status.ToString());
  return text;
}

std::vector<int32_t> SentencePieceTokenizer::EncodeFirst(std::string_view text, size_t count) const {
  RequireUtf8(text, "text");
  std::vector<int32_t> ids;
  while (chunk_rule_ != ChunkRule::kWhole && text.size() > kChunkBytes && ids.size() < count) {
    const size_t cut = FindCut(text, kChunkBytes);
    if (cut == text.size()) break;
    EncodeChunk(text.substr(0, cut), &ids);
    text.remove_prefix(chunk_rule_ == ChunkRule::kDropSpace ? cut + 1 : cut);
  }
  if (ids.size() < count) EncodeChunk(text, &ids);
  ids.resize(std::min(ids.size(), count));
  return ids;
}

void SentencePieceTokenizer::EncodeChunk(std::string_view chunk, std::vector<int32_t>* ids) const {
  std::vector<int> pieces;
  const auto status = processor_->Encode(chunk, &pieces);
  if (!status.ok()) Fail("text: SentencePiece cannot encode it ({})", status.ToString());
  ids->insert(ids->end(), pieces.begin(), pieces.end());
}

}  // namespace tare
