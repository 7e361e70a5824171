// SPDX-License-Identifier: Apache-2.0
// The table with which a tokenizer.model maps characters before it looks for pieces (NormalizerSpec's
// precompiled_charsmap): 4 bytes with the size of a double-array trie in bytes, the trie, and the texts that its values
// are offsets into, each ended by NUL. SentencePiece follows the trie unchecked and passes on any bytes as text, so a
// damaged table could make it read out of bounds: both are checked here first.
//
// Units of the trie, as Darts-clone packs them: bits 0-7 label, 8 whether a value follows, 9 whether the offset is
// shifted by 8, 10-30 offset; bit 31 marks a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tare {

namespace character_map {

// Fields of a unit.
inline uint32_t Label(uint32_t unit) { return unit & 0x8000'00ff; }
inline uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
inline bool HasValue(uint32_t unit) { return (unit & 0x100) != 0; }
inline uint32_t Value(uint32_t unit) { return unit & 0x7fff'ffff; }

}  // namespace character_map

// Throws Error if a text could lead outside or become invalid UTF-8. "" means no table.
void CheckCharacterMap(std::string_view map, const std::string& where);

}  // namespace tare
