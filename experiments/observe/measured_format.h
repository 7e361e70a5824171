// SPDX-License-Identifier: Apache-2.0
// A format whose error statistics measure. Its scale belongs to the current row (row, token; group<N> and block<N>: N
// neighbouring values of it) or spans rows of the sequence (tensor, head, channel); an earlier pass then finds the
// magnitude of the largest code (wide_scales.h). Formats with their own blocks place them as plans do: along the tokens
// for v.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/format/format.h"
#include "quant/format/granularity.h"
#include "quant/observe/site_visitor.h"
#include "quant/plan/site.h"

namespace tare {

// A format with blocks of its own (mxfp4) has no granularity in its name.
struct MeasuredFormat {
  Format format = Format::kInt8;
  Granularity granularity;
  std::string name;  // as in statistics: "int8/row"

  // Of weights a channel is an output channel, as in plans: one row.
  bool SpansRows(Site site) const;
};

// "int8/row,int6/group64,int4/tensor,mxfp4"; empty text is none. Throws Error.
std::vector<MeasuredFormat> ParseMeasuredFormats(std::string_view text);
std::vector<std::string> NamesOf(std::span<const MeasuredFormat> formats);
// Those that the site has sums of (IsMeasured, quant/observe/site_statistics.h), their blocks as they lie there.
std::vector<MeasuredFormat> FormatsOf(Site site, std::span<const MeasuredFormat> formats);

// The magnitudes that become the largest code where scales span rows.
struct WideClips {
  float tensor = 0.0f, head = 0.0f;
  std::span<const float> channels;  // one per value of the row
};

// The row quantized and dequantized, absmax scales; the values finite. A site that is never negative (probs) takes the
// unsigned format of as many bits.
void QuantizeRow(const MeasuredFormat& format, Site site, const WideClips& clips, std::span<const float> row,
                 std::span<float> quantized);
// The same of all rows of a block, in place, not by channel: for scales of a few tokens of one channel each.
void QuantizeBlock(const MeasuredFormat& format, const WideClips& clips, const SiteBlock& block);

}  // namespace tare
