// SPDX-License-Identifier: Apache-2.0
// A format whose error statistics measure on the way: a scale a row (a token, a query), or a group or block of N
// neighbouring values of it. Scales of wider granularity need the whole tensor before its first value, and one pass
// does not have that.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/format/format.h"
#include "quant/format/granularity.h"
#include "quant/format/site.h"

namespace tare {

struct RowFormat {
  Format format = Format::kInt8;
  Granularity granularity;
  std::string name;  // as in statistics: "int8/row"
};

// "int8/row,int6/group64"; empty text is none. Throws Error.
std::vector<RowFormat> ParseRowFormats(std::string_view text);
std::vector<std::string> NamesOf(std::span<const RowFormat> formats);

// The row quantized and dequantized, absmax scales; the values finite. A site that is never negative (probs) takes the
// unsigned format of as many bits.
void QuantizeRow(const RowFormat& format, Site site, std::span<const float> row, std::span<float> quantized);

}  // namespace tare
