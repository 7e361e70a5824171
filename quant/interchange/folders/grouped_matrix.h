// SPDX-License-Identifier: Apache-2.0
// What nearly every scheme stores is one formula. For row r and column c of W [out, in], in group g of the columns:
//
//   W(r, c) = (value[code(r, c)] - zero[zero code(r, g)]) * scale(r, g) + added(r, g)
//
// value: what a code stands for, an integer or a number of FP8, FP4 or NF4. Integers and their differences are exact in
// f32, so the product is rounded once, as in the tools' own formulas with scales taken to f32. A second scale of the
// whole tensor divides or multiplies the first before the product (NVFP4), in f32. Only MLX adds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quant/interchange/folders/packed_codes.h"
#include "quant/interchange/folders/quantization_config.h"

namespace tare {

// Scales as a tensor holds them: f32, f16, bf16, E4M3, or E8M0, which some call U8.
struct StoredScales {
  const TensorView* tensor = nullptr;
  int64_t row_step = 0, group_step = 0;  // in elements
  int64_t rows = 1;                      // that share one
  float divisor = 1.0f, factor = 1.0f;   // of the whole tensor

  float At(int64_t row, int64_t group) const;
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

// The integers of these parts, if there are any (grouped_integers.cc). Reads all zero points, and all scales that are
// to be halved.
std::optional<GroupedIntegers> IntegersIn(const GroupedParts& parts);

// Why its tensors must have the shapes that they have, for messages.
std::string Because(const GroupedParts& parts);
// The group of each column, as i32 or i64. Throws Error for one below `least` or without a scale.
std::vector<int32_t> GroupsOfColumns(const GroupedParts& parts, const TensorView& g_idx, int64_t least,
                                     const ModuleTensors& tensors);

// Adds the matrix of these parts; the files of `tensors` outlive it. Throws Error where a scale is NaN or infinite, or
// what it is stored as has no value.
void AddMatrix(GroupedParts parts, const ModuleTensors& tensors, ForeignModel& model);

// Values of unsigned codes less `offset`, and of two's complement.
std::array<float, 256> IntegerValues(int offset);
std::array<float, 256> SignedByteValues();

}  // namespace tare
