// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format, and the messages.
#include "quant/file/piece_model.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tare {
namespace {

std::optional<uint64_t> TakeVarint(std::string_view& rest) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

// How many bytes follow in a field that is no varint: 8 (type 1), as many as are counted there (2), or 4 (5).
std::optional<uint64_t> TakeSize(uint64_t type, std::string_view& rest) {
  if (type == 2) return TakeVarint(rest);
  return type == 1 ? std::optional<uint64_t>(8) : type == 5 ? std::optional<uint64_t>(4) : std::nullopt;
}

struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of the others
};

// Each begins with (number << 3 | type) as a varint. False where the bytes are no fields.
bool ForEachField(std::string_view rest, const auto& visit) {
  while (!rest.empty()) {
    const std::optional<uint64_t> tag = TakeVarint(rest);
    if (!tag) return false;
    const bool is_varint = (*tag & 7) == 0;
    const std::optional<uint64_t> number = is_varint ? TakeVarint(rest) : TakeSize(*tag & 7, rest);
    const uint64_t size = is_varint ? 0 : number.value_or(0);
    if (!number || size > rest.size()) return false;
    visit(WireField{.number = *tag >> 3, .value = is_varint ? *number : 0, .bytes = rest.substr(0, size)});
    rest.remove_prefix(size);
  }
  return true;
}

bool ReadPiece(std::string_view bytes, PieceModel& model) {
  PieceModel::Piece& piece = model.pieces.emplace_back();
  return ForEachField(bytes, [&](const WireField& field) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2 && field.bytes.size() == sizeof piece.score)
      std::memcpy(&piece.score, field.bytes.data(), sizeof piece.score);
    if (field.number == 3) piece.kind = static_cast<int>(std::min<uint64_t>(field.value, 100));
  });
}

bool ReadTrainer(std::string_view bytes, PieceModel& model) {
  return ForEachField(bytes, [&](const WireField& field) {
    const auto number = static_cast<int32_t>(field.value);  // -1 is 2^64 - 1
    if (field.number == 3) model.type = number;
    if (field.number == 24) model.space_is_suffix = field.value != 0;
    if (field.number == 40) model.unknown = number;
    if (field.number == 41) model.begin = number;
    if (field.number == 42) model.end = number;
    if (field.number == 43) model.pad = number;
  });
}

bool ReadNormalizer(std::string_view bytes, PieceModel& model) {
  return ForEachField(bytes, [&](const WireField& field) {
    if (field.number == 2) model.character_map = field.bytes;
    if (field.number == 3) model.adds_space_in_front = field.value != 0;
    if (field.number == 4) model.removes_extra_spaces = field.value != 0;
    if (field.number == 5) model.escapes_spaces = field.value != 0;
  });
}

}  // namespace

PieceModel ReadPieceModel(std::string_view bytes) {
  PieceModel model;
  const auto read = [&](const WireField& field) {
    if (field.number == 1) return ReadPiece(field.bytes, model);
    if (field.number == 2) return ReadTrainer(field.bytes, model);
    return field.number != 3 || ReadNormalizer(field.bytes, model);
  };
  const bool ends = ForEachField(bytes, [&](const WireField& field) { model.damaged |= !read(field); });
  model.damaged |= !ends;
  return model;
}

}  // namespace tare
