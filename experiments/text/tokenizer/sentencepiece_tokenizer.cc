// SPDX-License-Identifier: Apache-2.0
// Fields of the model that decide whether texts may be cut, the rule, the place of a cut, and calls to the library.
#include "experiments/text/tokenizer/sentencepiece_tokenizer.h"

#include <algorithm>

#include <sentencepiece_processor.h>

#include "experiments/text/tokenizer/character_table.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/file/wire_format.h"

namespace tare {
namespace {

constexpr std::string_view kSpaceSymbol = "\xe2\x96\x81";  // U+2581

// A space or its symbol after another character.
bool HasInnerSpace(std::string_view piece) {
  while (piece.starts_with(kSpaceSymbol)) piece.remove_prefix(kSpaceSymbol.size());
  return piece.contains(kSpaceSymbol) || piece.contains(' ');
}

void ReadPiece(std::string_view bytes, PieceModel* model) {
  WireReader fields(bytes);
  for (WireField field; fields.Next(&field);) {
    if (field.number != 1) continue;
    model->knows_space |= field.bytes == kSpaceSymbol;
    model->has_inner_space |= HasInnerSpace(field.bytes);
    model->has_zero_byte |= field.bytes.contains('\0');
  }
  model->damaged |= fields.damaged();
}

void ReadTrainerSpec(std::string_view bytes, PieceModel* model) {
  WireReader fields(bytes);
  for (WireField field; fields.Next(&field);) {
    if (field.number == 3) model->type = field.value;
    if (field.number == 24) model->space_is_suffix = field.value != 0;
  }
  model->damaged |= fields.damaged();
}

void ReadNormalizerSpec(std::string_view bytes, PieceModel* model) {
  WireReader fields(bytes);
  for (WireField field; fields.Next(&field);) {
    if (field.number == 2) model->character_map = field.bytes;
    if (field.number == 3) model->adds_space_in_front = field.value != 0;
    if (field.number == 4) model->removes_extra_spaces = field.value != 0;
    if (field.number == 5) model->escapes_spaces = field.value != 0;
  }
  model->damaged |= fields.damaged();
}

// About 1,000 tokens. SentencePiece takes 85 bytes of memory per byte of text, and time that grows faster than the
// text: 16 MB take 1.4 GB and 20 s whole, 70 MB and 4.4 s in chunks.
constexpr size_t kChunkBytes = 4096;

}  // namespace

PieceModel ReadPieceModel(std::string_view bytes) {
  PieceModel model;
  WireReader fields(bytes);
  for (WireField field; fields.Next(&field);) {
    if (field.number == 1) ReadPiece(field.bytes, &model);
    if (field.number == 2) ReadTrainerSpec(field.bytes, &model);
    if (field.number == 3) ReadNormalizerSpec(field.bytes, &model);
  }
  model.damaged |= fields.damaged();
  return model;
}

ChunkRule PieceModel::Rule() const {
  constexpr uint64_t kBpe = 2;
  const bool separable = !damaged && type == kBpe && character_map.empty() && escapes_spaces && !space_is_suffix &&
                         knows_space && !has_inner_space;
  if (!separable) return ChunkRule::kWhole;
  if (adds_space_in_front) return ChunkRule::kDropSpace;
  return removes_extra_spaces ? ChunkRule::kWhole : ChunkRule::kKeepSpace;
}

size_t FindCut(std::string_view text, size_t from) {
  for (size_t at = text.find(' ', from); at < text.size(); at = text.find(' ', at + 1)) {
    const std::string_view before = text.substr(0, at);
    // A chunk of a lone space would lose it where it is dropped: nothing would be left to put another in front of.
    const bool last = at + 1 == text.size();
    if (!before.empty() && !last && !before.ends_with(' ') && !before.ends_with(kSpaceSymbol)) return at;
  }
  return text.size();
}

SentencePieceTokenizer::SentencePieceTokenizer(std::string_view bytes, const std::string& where)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const PieceModel model = ReadPieceModel(bytes);
  chunk_rule_ = model.Rule();
  if (!model.damaged) pipeline::CheckCharacterMap(model.character_map, where);
  if (model.has_zero_byte)
    Fail("{}: got a piece with a zero byte, expected text; try copying the checkpoint again", where);
  constexpr int kFatalOnly = 3;  // what it would print comes back as a status
  sentencepiece::SetMinLogLevel(kFatalOnly);
  const auto status = processor_->LoadFromSerializedProto(bytes);
  if (!status.ok() || bytes.empty() || model.damaged) {
    Fail(
        "{}: got {} bytes that SentencePiece cannot read ({}), expected a tokenizer.model; try copying the checkpoint "
        "again",
        where, bytes.size(), status.ToString());
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
