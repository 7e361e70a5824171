// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/piece_model.h"

#include <cstdint>

#include "quant/file/wire_format.h"

namespace tare {
namespace {

constexpr std::string_view kSpaceSymbol = "\xe2\x96\x81";  // U+2581

// With the defaults of sentencepiece_model.proto.
struct PieceModel {
  uint64_t type = 1;  // unigram; BPE is 2
  bool space_is_suffix = false;
  std::string_view character_map;
  bool adds_space_in_front = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;
  bool knows_space = false;
  bool has_inner_space = false;
  bool has_zero_byte = false;  // in a piece
  bool damaged = false;
};

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

}  // namespace

ChunkRule FindChunkRule(std::string_view bytes) {
  const PieceModel model = ReadPieceModel(bytes);
  constexpr uint64_t kBpe = 2;
  const bool separable = !model.damaged && model.type == kBpe && model.character_map.empty() && model.escapes_spaces &&
                         !model.space_is_suffix && model.knows_space && !model.has_inner_space;
  if (!separable) return ChunkRule::kWhole;
  if (model.adds_space_in_front) return ChunkRule::kDropSpace;
  return model.removes_extra_spaces ? ChunkRule::kWhole : ChunkRule::kKeepSpace;
}

std::optional<std::string_view> CharacterMapOf(std::string_view bytes) {
  const PieceModel model = ReadPieceModel(bytes);
  if (model.damaged) return std::nullopt;
  return model.character_map;
}

bool HasZeroByteInPiece(std::string_view bytes) { return ReadPieceModel(bytes).has_zero_byte; }

size_t FindCut(std::string_view text, size_t from) {
  for (size_t at = text.find(' ', from); at < text.size(); at = text.find(' ', at + 1)) {
    const std::string_view before = text.substr(0, at);
    // A chunk of a lone space would lose it where it is dropped: nothing would be left to put another in front of.
    const bool last = at + 1 == text.size();
    if (!before.empty() && !last && !before.ends_with(' ') && !before.ends_with(kSpaceSymbol)) return at;
  }
  return text.size();
}

}  // namespace tare
