// SPDX-License-Identifier: Apache-2.0
#include "experiments/stats/row_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "quant/base/error.h"
#include "quant/format/quantize.h"

namespace tare {
namespace {

using ::testing::HasSubstr;

std::string Refused(std::string_view text) {
  try {
    ParseRowFormats(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RowFormat, ParsesAList) {
  const std::vector<RowFormat> formats = ParseRowFormats("int8/row,int4/group64");
  EXPECT_EQ(NamesOf(formats), (std::vector<std::string>{"int8/row", "int4/group64"}));
  EXPECT_TRUE(ParseRowFormats("").empty());
  EXPECT_THAT(Refused("int7/row"), HasSubstr("got 'int7'"));
  EXPECT_THAT(Refused("u8/row"), HasSubstr("expected int8, int6 or int4"));
  EXPECT_THAT(Refused("int8/tensor"), HasSubstr("second pass"));
  EXPECT_THAT(Refused("int8"), HasSubstr("--formats 'int8'"));
  EXPECT_THAT(Refused("int8/row,int8/row"), HasSubstr("twice"));
  EXPECT_THAT(Refused("int8/row,"), HasSubstr("after the last comma"));
}

// Against the scalar truth of quant/format.
TEST(RowFormat, QuantizesAsGroupsAreDefined) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> row(100), out(100);
  for (float& v : row) v = normal(random);
  for (const auto& [text, format, group] : {std::tuple{"int6/row", Format::kInt6, size_t{100}},
                                            {"int4/group32", Format::kInt4, size_t{32}},
                                            {"int8/block64", Format::kInt8, size_t{64}}}) {
    QuantizeRow(ParseRowFormats(text)[0], Site::kQ, row, out);
    for (size_t begin = 0; begin < row.size(); begin += group) {
      const size_t n = std::min(group, row.size() - begin);
      std::vector<int16_t> codes(n);
      const float scale = QuantizeGroup(std::span(row).subspan(begin, n), format, codes);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(out[begin + i], static_cast<float>(codes[i]) * scale) << text;
    }
  }
}

TEST(RowFormat, ProbabilitiesTakeUnsignedCodes) {
  const std::vector<float> row = {1.0f, 0.5f, 1.0f / 255};
  std::vector<float> out(3);
  QuantizeRow(ParseRowFormats("int8/row")[0], Site::kProbs, row, out);
  EXPECT_EQ(out[2], 1.0f / 255);  // one code of 255; of 127 it would be half a step
}

}  // namespace
}  // namespace tare
