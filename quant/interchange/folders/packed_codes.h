// SPDX-License-Identifier: Apache-2.0
// Unsigned codes of 1 to 8 bits, packed little-endian into words, as other tools pack them. A matrix of codes [rows,
// columns] is a set of streams: code i of a stream is at bit i * bits of its words, so that one may lie across two of
// them, or, where `per_word` is not 0, at bit (i % per_word) * bits of word i / per_word. Streams run along the columns
// (compressed-tensors) or along the rows (GPTQ's weights, whose streams are the columns of what it stores).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tare {

struct PackedCodes {
  const std::byte* words = nullptr;  // need no alignment
  int bits = 4;
  int word_bytes = 4;                                    // 4, or 1
  int per_word = 0;                                      // codes in a word; 0: as many as the bits of all words hold
  int64_t word_step = 1;                                 // words from one word of a stream to the next
  int64_t stream_step = 1;                               // words from one stream to the next
  uint32_t word_add = 0;                                 // added to a word, modulo 2^32, before its codes are taken
  uint32_t code_add = 0;                                 // added to a code, modulo 2^bits
  std::array<uint8_t, 8> place{0, 1, 2, 3, 4, 5, 6, 7};  // of eight codes in a word, where per_word is 8
  bool along_rows = true;                                // whether a stream is a row

  // Code (row, column).
  uint32_t At(int64_t row, int64_t column) const;
  // The first `count` codes of a row.
  void Row(int64_t row, int64_t count, uint8_t* codes) const;

  // Whether eight neighbouring rows lie in the same words: then Rows reads a word once, and a line of the cache once
  // for kRowsTogether rows, where Row comes by for every row. (Lines of one column are a power of two apart, often, and
  // few of them stay in a cache until the next row.)
  bool SharesWords() const;
  static constexpr int64_t kRowsTogether = 32;
  // The first `count` codes of `rows` rows of such codes, from row `first` on, a multiple of 8; codes [rows][stride].
  void Rows(int64_t first, int64_t rows, int64_t count, int64_t stride, uint8_t* codes) const;

 private:
  uint32_t Word(int64_t stream, int64_t index) const;
  std::array<uint64_t, 8> Square(int64_t column, int64_t columns, int64_t of_word) const;
  uint32_t InStream(int64_t stream, int64_t index) const;
  int64_t PlainRow(int64_t row, int64_t count, uint8_t* codes) const;
};

// Words that a stream of `count` codes takes.
int64_t WordsOf(int64_t count, int bits, int per_word, int word_bits);

}  // namespace tare
