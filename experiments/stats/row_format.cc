// SPDX-License-Identifier: Apache-2.0
#include "experiments/stats/row_format.h"

#include <algorithm>
#include <format>

#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/format/round.h"
#include "quant/format/site_class.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

RowFormat ParseOne(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<Format> format = ParseFormat(text.substr(0, slash));
  const std::optional<Granularity> granularity =
      slash == text.npos ? std::nullopt : ParseGranularity(text.substr(slash + 1));
  if (!format || Info(*format).min_code >= 0)
    Fail("--formats '{}': got '{}', expected int8, int6 or int4 (probs take u8, u6, u4)", text, text.substr(0, slash));
  const Kind kinds[] = {Kind::kRow, Kind::kToken, Kind::kGroup, Kind::kBlock};
  if (!granularity || std::ranges::find(kinds, granularity->kind) == std::end(kinds)) {
    Fail(
        "--formats '{}': expected a scale a row, token, group<N> or block<N>; wider ones need a second pass: try "
        "tare eval with a plan",
        text);
  }
  return {*format, *granularity, std::format("{}/{}", Info(*format).name, Name(*granularity))};
}

Format Unsigned(Format format) {
  const int bits = Info(format).bits;
  return bits == 8 ? Format::kU8 : bits == 6 ? Format::kU6 : Format::kU4;
}

}  // namespace

std::vector<RowFormat> ParseRowFormats(std::string_view text) {
  std::vector<RowFormat> formats;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    RowFormat format = ParseOne(text.substr(begin, end - begin));
    if (std::ranges::find(formats, format.name, &RowFormat::name) != formats.end())
      Fail("--formats: got {} twice, expected each once", format.name);
    formats.push_back(std::move(format));
    begin = end + 1;
  }
  if (text.ends_with(',')) Fail("--formats '{}': got nothing after the last comma, expected a format", text);
  return formats;
}

std::vector<std::string> NamesOf(std::span<const RowFormat> formats) {
  std::vector<std::string> names;
  for (const RowFormat& format : formats) names.push_back(format.name);
  return names;
}

void QuantizeRow(const RowFormat& format, Site site, std::span<const float> row, std::span<float> quantized) {
  TARE_CHECK(row.size() == quantized.size());
  const Format codes = ClassOf(site).is_unsigned ? Unsigned(format.format) : format.format;
  const size_t group =
      format.granularity.n == 0 ? std::max<size_t>(1, row.size()) : static_cast<size_t>(format.granularity.n);
  std::ranges::copy(row, quantized.begin());
  for (size_t begin = 0; begin < row.size(); begin += group) {
    const size_t n = std::min(group, row.size() - begin);
    FakeQuantize(&quantized[begin], n, ScaleFor(AbsMax(&row[begin], n), codes), codes);
  }
}

}  // namespace tare
