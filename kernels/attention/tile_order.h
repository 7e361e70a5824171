// SPDX-License-Identifier: Apache-2.0
// The order of a tile's 64 keys between the two products. x86 packs two vectors of 32 bits into one of 16, and those
// into bytes, within each 128 bits, in one instruction each; a pack that keeps the order takes three. So the tile of K
// has its keys in the order that two such packs undo:
//
//   product of Q and K    column 16 w + 4 b + i     is key 16 b + 4 w + i       b, w, i of 0 to 3
//   exponentials          place 32 (w / 2) + 8 b + 4 (w mod 2) + i
//   codes, V              place 16 b + 4 w + i      the key itself
#pragma once

#include <array>
#include <cstdint>

#include "kernels/attention/row_block.h"

namespace tare {

// Its own inverse: groups of four keys transposed. Four keys from a multiple of 4 on stay neighbours.
constexpr int ColumnOfKey(int key) { return key / 4 % 4 * 16 + key / 16 * 4 + key % 4; }
constexpr int KeyOfColumn(int column) { return ColumnOfKey(column); }

constexpr int KeyOfExp(int place) { return place / 8 % 4 * 16 + (place / 32 * 2 + place / 4 % 2) * 4 + place % 4; }
constexpr int ExpOfKey(int key) { return key / 8 % 2 * 32 + key / 16 * 8 + key / 4 % 2 * 4 + key % 4; }

// The same as tables, for vectors.
template <typename T>
constexpr std::array<T, kTile> KeysOf(int (*key_of)(int)) {
  std::array<T, kTile> keys{};
  for (int i = 0; i < kTile; ++i) keys[static_cast<size_t>(i)] = static_cast<T>(key_of(i));
  return keys;
}
alignas(64) inline constexpr std::array<int32_t, kTile> kColumnKeys = KeysOf<int32_t>(KeyOfColumn);
alignas(64) inline constexpr std::array<uint8_t, kTile> kExpKeys = KeysOf<uint8_t>(KeyOfExp);

}  // namespace tare
