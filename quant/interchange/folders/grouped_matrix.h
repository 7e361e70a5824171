// SPDX-License-Identifier: Apache-2.0
// Matrices of packed codes and the scales of their groups.
//
// Unsigned codes of 1 to 8 bits are little-endian in words, as other tools pack them. A matrix of codes [rows, columns]
// is a set of streams: code i of a stream is at bit i * bits of its words, so that one may lie across two of them, or,
// where `per_word` is not 0, at bit (i % per_word) * bits of word i / per_word. Streams run along the columns
// (compressed-tensors) or along the rows (GPTQ's weights, whose streams are the columns of what it stores).
//
// What nearly every scheme stores is one formula. For row r and column c of W [out, in], in group g of the columns:
//
//   W(r, c) = (value[code(r, c)] - zero[zero code(r, g)]) * scale(r, g) + added(r, g)
//
// value: what a code stands for, an integer or a number of FP8, FP4 or NF4. Integers and their differences are exact in
// f32, so the product is rounded once, as in the tools' own formulas with scales taken to f32. A second scale of the
// whole tensor divides or multiplies the first before the product (NVFP4), in f32. Only MLX adds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quant/interchange/folders/quantization_config.h"

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

  uint32_t At(int64_t row, int64_t column) const;
  // The first `count` codes of a row.
  void Row(int64_t row, int64_t count, uint8_t* codes) const;

  // A row's codes of four bits, two to a byte, the lower first; null where they do not lie so.
  const std::byte* Nibbles(int64_t row) const;

  // Whether eight neighbouring rows lie in the same words: then Rows reads a word once, and a cache line once for
  // kRowsTogether rows, where Row comes by for each. (Lines of a column, often powers of two apart, are soon evicted.)
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

// Scales as a tensor holds them: f32, f16, bf16, E4M3, or E8M0, which some call U8.
struct StoredScales {
  const TensorView* tensor = nullptr;
  int64_t row_step = 0, group_step = 0;  // in elements
  int64_t rows = 1;                      // that share one
  float divisor = 1.0f, factor = 1.0f;   // of the whole tensor
  // In the place of the factor, which is then the largest: one for as many rows, which all are equal.
  std::vector<float> factors = {};
  int64_t rows_of_factor = 0;

  float At(int64_t row, int64_t group) const;
  // Those of a row's groups from the first on.
  void Load(int64_t row, int64_t first, std::span<float> scales) const;
};

struct GroupedParts {
  std::string name;   // of the matrix
  std::string where;  // "FOLDER: tensor 'X.weight'"
  std::string scheme;
  int64_t out = 0, in = 0;
  PackedCodes codes;                 // [out, in]
  std::array<float, 256> values{};   // of each code; NaN where there is none
  StoredScales scales;               // [out, groups]
  std::optional<PackedCodes> zeros;  // [out, groups]
  std::array<float, 256> zero_values{};
  std::optional<StoredScales> added;  // [out, groups]
  int64_t groups = 1, columns = 1;    // columns that share a scale, unless group_of says of each column
  std::vector<int32_t> group_of;
  std::optional<float> input_scale;        // static, of what it multiplies
  std::vector<const TensorView*> tensors;  // all that it consists of
};

// Integer codes of the same values.
struct GroupedIntegers {
  IntegerForm form;
  float step = 1, raised = 0;
  std::array<float, 256> codes{};  // of each stored code
  std::vector<int32_t> order;      // columns by their groups; empty: they are neighbours
};

// The integers of these parts, if any (grouped_integers.cc). Reads all zero points, and all scales to be halved.
std::optional<GroupedIntegers> IntegersIn(const GroupedParts& parts);

// Why its tensors must have the shapes that they have, for messages.
std::string Because(const GroupedParts& parts);
// Value i of a tensor of I32 or I64.
int64_t IntegerAt(const TensorView& tensor, size_t i);
// The group of each column, as i32 or i64. Throws Error for one below `least` or without a scale.
std::vector<int32_t> GroupsOfColumns(const GroupedParts& parts, const TensorView& g_idx, int64_t least,
                                     const ModuleTensors& tensors);

// Adds the matrix of these parts; the files of `tensors` outlive it. Throws Error for NaN, infinite, undefined scales.
void AddMatrix(GroupedParts parts, const ModuleTensors& tensors, ForeignModel& model);

// Values of unsigned codes less `offset`, and of two's complement.
std::array<float, 256> IntegerValues(int offset);
std::array<float, 256> SignedByteValues();

}  // namespace tare
