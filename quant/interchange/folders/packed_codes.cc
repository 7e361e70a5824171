// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/packed_codes.h"

#include <algorithm>
#include <cstring>

namespace tare {
namespace {

// Eight codes of four bits, the lowest first, as bytes.
uint64_t Spread(uint32_t word) {
  uint64_t bytes = word;
  bytes = (bytes | bytes << 16) & 0x0000ffff0000ffff;
  bytes = (bytes | bytes << 8) & 0x00ff00ff00ff00ff;
  return (bytes | bytes << 4) & 0x0f0f0f0f0f0f0f0f;
}

// Byte j of word i becomes byte i of word j: halves of the square change places, then halves of these, and so on.
void Transpose(std::array<uint64_t, 8>& words) {
  constexpr std::array<uint64_t, 3> kLower{0x00000000ffffffff, 0x0000ffff0000ffff, 0x00ff00ff00ff00ff};
  for (size_t step = 4, level = 0; step > 0; step /= 2, ++level) {
    for (size_t i = 0; i < words.size(); ++i) {
      if ((i & step) != 0) continue;
      const uint64_t swapped = (words[i] >> (8 * step) ^ words[i + step]) & kLower[level];
      words[i + step] ^= swapped;
      words[i] ^= swapped << (8 * step);
    }
  }
}

}  // namespace

uint32_t PackedCodes::Word(int64_t stream, int64_t index) const {
  const std::byte* at = words + (stream * stream_step + index * word_step) * word_bytes;
  if (word_bytes == 1) return static_cast<uint32_t>(*at);
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word + word_add;
}

uint32_t PackedCodes::InStream(int64_t stream, int64_t index) const {
  const uint32_t mask = (1u << bits) - 1;
  if (per_word != 0) {
    const auto part = static_cast<int>(index % per_word);
    const int shift = (per_word == 8 ? place[static_cast<size_t>(part)] : part) * bits;
    return ((Word(stream, index / per_word) >> shift) + code_add) & mask;
  }
  const int word_bits = 8 * word_bytes;
  const int64_t bit = index * bits, word = bit / word_bits;
  const auto shift = static_cast<int>(bit % word_bits);
  uint32_t code = Word(stream, word) >> shift;
  if (shift + bits > word_bits) code |= Word(stream, word + 1) << (word_bits - shift);
  return (code + code_add) & mask;
}

uint32_t PackedCodes::At(int64_t row, int64_t column) const {
  return along_rows ? InStream(row, column) : InStream(column, row);
}

// Unpacks a row whose codes follow each other from the lowest bits, with nothing added: whole words of eight codes, or
// bytes of one or two. Returns how many codes it took, none of other rows.
int64_t PackedCodes::PlainRow(int64_t row, int64_t count, uint8_t* codes) const {
  if (!along_rows || per_word != 0 || word_add != 0 || code_add != 0) return 0;
  const std::byte* const first = words + row * stream_step * word_bytes;
  if (bits == 8 && word_step == 1) {
    std::memcpy(codes, first, static_cast<size_t>(count));
    return count;
  }
  if (bits != 4 || (word_bytes != 4 && word_step != 1)) return 0;
  const int64_t step = word_bytes == 4 ? word_step * 4 : 4;
  for (int64_t i = 0; i < count / 8; ++i) {
    uint32_t word;
    std::memcpy(&word, first + i * step, sizeof word);
    const uint64_t eight = Spread(word);
    std::memcpy(codes + 8 * i, &eight, sizeof eight);
  }
  return count / 8 * 8;
}

void PackedCodes::Row(int64_t row, int64_t count, uint8_t* codes) const {
  const bool whole = per_word != 0 || (8 * word_bytes) % bits == 0;
  if (!whole) {
    for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(At(row, i));
    return;
  }
  const int in_word = per_word != 0 ? per_word : 8 * word_bytes / bits;
  const uint32_t mask = (1u << bits) - 1;
  if (!along_rows) {  // the same place in one word of each stream
    const auto part = static_cast<int>(row % in_word);
    const int shift = (in_word == 8 ? place[static_cast<size_t>(part)] : part) * bits;
    for (int64_t i = 0; i < count; ++i)
      codes[i] = static_cast<uint8_t>(((Word(i, row / in_word) >> shift) + code_add) & mask);
    return;
  }
  const int64_t plain = PlainRow(row, count, codes);
  for (int64_t i = plain, word = plain / in_word; i < count; i += in_word, ++word) {  // each word is read once
    const uint32_t value = Word(row, word);
    const auto here = static_cast<int>(std::min<int64_t>(in_word, count - i));
    for (int part = 0; part < here; ++part) {
      const int shift = (in_word == 8 ? place[static_cast<size_t>(part)] : part) * bits;
      codes[i + part] = static_cast<uint8_t>(((value >> shift) + code_add) & mask);
    }
  }
}

bool PackedCodes::SharesWords() const {
  return !along_rows && bits == 4 && per_word == 8 && word_bytes == 4 && word_add == 0 && code_add == 0;
}

// The codes of up to eight columns in the words that hold rows 8 of_word to 8 of_word + 7: a row's are eight bytes.
std::array<uint64_t, 8> PackedCodes::Square(int64_t column, int64_t columns, int64_t of_word) const {
  std::array<uint64_t, 8> eight{};  // by column, then by place in a word
  const std::byte* const at = words + (column * stream_step + of_word * word_step) * word_bytes;
  for (int64_t c = 0; c < columns; ++c) {
    uint32_t word;
    std::memcpy(&word, at + c * stream_step * word_bytes, sizeof word);
    eight[static_cast<size_t>(c)] = Spread(word);
  }
  Transpose(eight);
  return eight;
}

void PackedCodes::Rows(int64_t first, int64_t rows, int64_t count, int64_t stride, uint8_t* codes) const {
  constexpr int64_t kEight = 8;
  for (int64_t column = 0; column < count; column += kEight) {
    const int64_t columns = std::min(kEight, count - column);
    for (int64_t row = 0; row < rows; row += kEight) {
      const std::array<uint64_t, 8> square = Square(column, columns, (first + row) / kEight);
      uint8_t* const to = codes + row * stride + column;
      if (columns == kEight && rows - row >= kEight) {
        for (int64_t r = 0; r < kEight; ++r) std::memcpy(to + r * stride, &square[place[static_cast<size_t>(r)]], 8);
        continue;
      }
      for (int64_t r = 0; r < std::min(kEight, rows - row); ++r)
        std::memcpy(to + r * stride, &square[place[static_cast<size_t>(r)]], static_cast<size_t>(columns));
    }
  }
}

int64_t WordsOf(int64_t count, int bits, int per_word, int word_bits) {
  if (per_word != 0) return count / per_word + (count % per_word != 0 ? 1 : 0);
  return count / word_bits * bits + (count % word_bits * bits + word_bits - 1) / word_bits;
}

}  // namespace tare
