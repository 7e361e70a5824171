// SPDX-License-Identifier: Apache-2.0
#include "quant/format/foreign_matrix.h"

#include <array>
#include <vector>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"

namespace tare {
namespace {

constexpr std::array kNarrowFirst{Format::kInt2, Format::kInt3, Format::kInt4, Format::kInt6, Format::kInt8};

bool Covers(Format format, float least, float most) {
  const FormatInfo& info = Info(format);
  return static_cast<float>(info.min_code) <= least && most <= static_cast<float>(info.max_code);
}

}  // namespace

std::optional<Format> SignedFormat(float least, float most) {
  for (const Format base : kNarrowFirst) {
    for (const Format& format : {base, WithRange(base, CodeRange::kFull)}) {
      if (Covers(format, least, most)) return format;
    }
  }
  return std::nullopt;
}

std::optional<Format> RangedFormat(float most, CodeRange range) {
  for (const Format base : kNarrowFirst) {
    if (const Format format = WithRange(base, range); Covers(format, 0.0f, most)) return format;
  }
  return std::nullopt;
}

void ForeignMatrix::Integers(int64_t, const IntegerRow&) const { TARE_CHECK(false); }

QuantizedMatrixBuffer IntegersOf(const ForeignMatrix& matrix) {
  const std::optional<IntegerForm> form = matrix.integers();
  TARE_CHECK(form.has_value());
  QuantizedMatrixBuffer made(form->format, matrix.out(), matrix.in(), form->group);
  const QuantizedMatrix& view = made.view();
  constexpr int64_t kRows = 32;  // neighbours, which may share words of the file: on one thread
  ParallelForBlocks(matrix.out(), kRows, [&](int64_t first, int64_t rows) {
    std::vector<float> codes(static_cast<size_t>(matrix.in()));
    for (int64_t row = first; row < first + rows; ++row) {
      matrix.Integers(row, {.codes = codes.data(),
                            .scales = made.Scales(row),
                            .zeros = view.zeros == nullptr ? nullptr : made.Zeros(row),
                            .minima = view.minima == nullptr ? nullptr : made.Minima(row)});
      Pack<float>(view.format, codes, {made.Codes(row), view.RowBytes()});
    }
  });
  return made;
}

}  // namespace tare
