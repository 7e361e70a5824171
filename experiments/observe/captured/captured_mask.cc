// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/captured/captured_mask.h"

#include <algorithm>
#include <limits>

#include "quant/base/error.h"

namespace tare {
namespace {

// Frameworks add minus infinity, or the lowest value of the type, to a masked logit. Rounding may leave the sum
// slightly above it; no real logit comes near nine tenths of it.
float LowestOf(DType dtype) {
  constexpr float kLargestF16 = 65504.0f;
  return -0.9f * (dtype == DType::kF16 ? kLargestF16 : std::numeric_limits<float>::max());
}

bool NothingAfterItself(const CapturedArray& map, const ArrayValues& values) {
  std::vector<float> row(static_cast<size_t>(map.columns));
  for (int64_t b = 0; b < map.sequences; ++b) {
    for (int64_t h = 0; h < map.heads; ++h) {
      for (int64_t q = 0; q < map.rows; ++q) {
        const int64_t first = b * map.sequence_stride + h * map.head_stride + q * map.row_stride;
        values.Read(first, map.column_stride, map.columns, row.data());
        const int64_t seen = std::clamp<int64_t>(q + 1 + map.columns - map.rows, 0, map.columns);
        if (std::any_of(row.begin() + seen, row.end(), [](float v) { return v != 0.0f; })) return false;
      }
    }
  }
  return true;
}

}  // namespace

CapturedMask::CapturedMask(const CapturedFile& file, const CapturedArray& map, const ArrayValues& values,
                           const std::string& mask)
    : where_(file.file->path().string() + ": " + map.array.name),
      lowest_(LowestOf(map.array.dtype)),
      later_(map.columns - map.rows),
      columns_(map.columns) {
  if (later_ != 0 && file.tokens.front().Size() != map.rows)
    Fail("{}: got {} queries and {} keys with an attention_mask, expected equal numbers", where_, map.rows,
         map.columns);
  if (mask == "none") {
    kind_ = Kind::kNone;
  } else if (mask == "causal") {
    kind_ = Kind::kCausal;
  } else if (mask == "lowest" || (mask.empty() && map.site == Site::kAttnLogits)) {
    kind_ = Kind::kLowest;
  } else if (mask.empty()) {
    kind_ = NothingAfterItself(map, values) ? Kind::kCausal : Kind::kNone;
  } else {
    kind_ = Kind::kArray;
    const std::vector<ArrayInfo>& arrays = file.file->arrays();
    const auto found = std::ranges::find(arrays, mask, &ArrayInfo::name);
    if (found == arrays.end())
      Fail("{}: got no array '{}' for its mask, expected one, or causal, none or lowest", where_, mask);
    const int64_t B = map.sequences, T = map.rows, S = map.columns;
    const std::vector<int64_t>& shape = found->shape;
    const bool one = shape == std::vector{T, S};
    if (!one && shape != std::vector{B, T, S} && shape != std::vector<int64_t>{B, 1, T, S})
      Fail("{}: mask {}: got shape {}, expected [{}, {}] or [{}, {}, {}]", where_, mask, ShapeText(shape), T, S, B, T,
           S);
    array_.emplace(file.file->Values(*found));
    array_sequence_ = one ? 0 : T * S;
  }
}

bool CapturedMask::Sees(int64_t sequence, int64_t query, int64_t key, float value) const {
  switch (kind_) {
    case Kind::kNone:
      return true;
    case Kind::kCausal:
      return key <= query + later_;
    case Kind::kLowest:
      return !(value <= lowest_);
    case Kind::kArray: {
      float seen = 0.0f;
      array_->Read(sequence * array_sequence_ + query * columns_ + key, 1, 1, &seen);
      return seen != 0.0f;
    }
  }
  return true;
}

PositionRange CapturedMask::Visible(int64_t sequence, int64_t query, std::span<const float> row,
                                    PositionRange tokens) const {
  const auto sees = [&](int64_t key) { return Sees(sequence, query, key, row[static_cast<size_t>(key)]); };
  if (later_ != 0) tokens = {0, columns_};
  PositionRange seen = tokens;
  while (seen.begin < seen.end && !sees(seen.begin)) ++seen.begin;
  seen.end = seen.begin;
  while (seen.end < tokens.end && sees(seen.end)) ++seen.end;
  for (int64_t key = seen.end; key < tokens.end; ++key) {
    if (sees(key))
      Fail("{}: sequence {}: query {} sees keys {} and {} but not {}, expected contiguous keys", where_, sequence,
           query, seen.end - 1, key, seen.end);
  }
  return seen;
}

}  // namespace tare
