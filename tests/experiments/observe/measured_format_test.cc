// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/measured_format.h"

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
    ParseMeasuredFormats(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MeasuredFormat, ParsesAList) {
  const std::vector<MeasuredFormat> formats = ParseMeasuredFormats("int8/row,int4/group64");
  EXPECT_EQ(NamesOf(formats), (std::vector<std::string>{"int8/row", "int4/group64"}));
  EXPECT_TRUE(ParseMeasuredFormats("").empty());
  EXPECT_THAT(Refused("int7/row"), HasSubstr("got 'int7'"));
  EXPECT_THAT(Refused("mxpf4:rceil"), HasSubstr("; the nearest are 'mxfp4:rceil', "));
  EXPECT_THAT(Refused("ternary/row"), HasSubstr("got 'ternary'"));
  EXPECT_THAT(Refused("u8/row"), HasSubstr("expected int8, int6 or int4"));
  EXPECT_THAT(Refused("int8/block4.channel"), HasSubstr("expected one scale per tensor, head, channel, row"));
  EXPECT_THAT(Refused("int8"), HasSubstr("--formats 'int8'"));
  EXPECT_THAT(Refused("int8/row,int8/row"), HasSubstr("twice"));
  EXPECT_THAT(Refused("int8/row,"), HasSubstr("after the last comma"));
}

// Against the scalar truth of quant/format.
TEST(MeasuredFormat, QuantizesAsGroupsAreDefined) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> row(100), out(100);
  for (float& v : row) v = normal(random);
  for (const auto& [text, format, group] : {std::tuple{"int6/row", Format::kInt6, size_t{100}},
                                            {"int4/group32", Format::kInt4, size_t{32}},
                                            {"int8/block64", Format::kInt8, size_t{64}}}) {
    QuantizeRow(ParseMeasuredFormats(text)[0], Site::kQ, {}, row, out);
    for (size_t begin = 0; begin < row.size(); begin += group) {
      const size_t n = std::min(group, row.size() - begin);
      std::vector<int16_t> codes(n);
      const float scale = QuantizeGroup(std::span(row).subspan(begin, n), format, codes);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(out[begin + i], static_cast<float>(codes[i]) * scale) << text;
    }
  }
}

TEST(MeasuredFormat, ProbabilitiesTakeUnsignedCodes) {
  const std::vector<float> row = {1.0f, 0.5f, 1.0f / 255};
  std::vector<float> out(3);
  QuantizeRow(ParseMeasuredFormats("int8/row")[0], Site::kProbs, {}, row, out);
  EXPECT_EQ(out[2], 1.0f / 255);  // one code of 255; of 127 it would be half a step
}

TEST(MeasuredFormat, ScalesThatSpanRowsComeFromTheirClips) {
  const std::vector<float> row = {3.0f, -0.4f}, channels = {7.0f, 0.7f};
  const WideClips clips{.tensor = 28.0f, .head = 14.0f, .channels = channels};
  std::vector<float> out(2);
  const auto quantized = [&](const char* text, Site site) {
    QuantizeRow(ParseMeasuredFormats(text)[0], site, clips, row, out);
    return out;
  };
  EXPECT_EQ(quantized("int4/tensor", Site::kQ), (std::vector<float>{4.0f, 0.0f}));  // 0.75 steps of 4
  EXPECT_EQ(quantized("int4/head", Site::kQ), (std::vector<float>{4.0f, 0.0f}));    // 1.5 steps of 2
  EXPECT_EQ(quantized("int4/channel", Site::kQ), (std::vector<float>{3.0f, -4 * (0.7f / 7)}));
  EXPECT_EQ(quantized("int4/channel", Site::kQProjW)[0], 3.0f / 7 * 7);  // a weight's is the row's own
  EXPECT_FALSE(ParseMeasuredFormats("int4/channel")[0].SpansRows(Site::kLmHeadW));
  EXPECT_TRUE(ParseMeasuredFormats("int4/channel")[0].SpansRows(Site::kLmHeadIn));
}

TEST(MeasuredFormat, BlocksOfTheirOwn) {
  const std::vector<MeasuredFormat> formats = ParseMeasuredFormats("mxfp4,nvfp4,fp8e4m3/row");
  EXPECT_EQ(NamesOf(formats), (std::vector<std::string>{"mxfp4", "nvfp4", "fp8e4m3/row"}));
  EXPECT_THAT(Refused("mxfp4/row"), HasSubstr("got a granularity, but mxfp4 has blocks of 32"));
  EXPECT_THAT(Refused("nf4"), HasSubstr("expected one scale per tensor"));
  for (const SiteInfo& info : kSites) EXPECT_EQ(FormatsOf(info.site, formats).size(), 3u) << info.name;
  EXPECT_EQ(Name(FormatsOf(Site::kV, formats)[0].granularity), "block32.channel");
  EXPECT_EQ(Name(FormatsOf(Site::kQ, formats)[1].granularity), "group16");
  EXPECT_TRUE(formats[1].SpansRows(Site::kQ));
  EXPECT_FALSE(formats[1].SpansRows(Site::kProbs) || formats[0].SpansRows(Site::kQ));
  std::vector<float> row(33, 0.0f), out(33);
  row[0] = 7.0f, row[1] = 2.5f, row[32] = 0.4f;
  QuantizeRow(formats[0], Site::kQ, {}, row, out);
  EXPECT_EQ(out[0], 6.0f);
  EXPECT_EQ(out[1], 2.0f);
  EXPECT_EQ(out[32], 0.375f);  // of a block of its own: scale 2^-4, 6.4 of its steps
  QuantizeRow(formats[1], Site::kQ, {.tensor = 2688.0f, .head = 1.0f, .channels = {}}, row, out);
  EXPECT_EQ(out[0], 6.75f);
  QuantizeRow(formats[1], Site::kProbs, {}, std::vector<float>{1.0f, 0.5f}, std::span(out).first(2));
  EXPECT_FLOAT_EQ(out[0], 1.0f);  // of a tensor of 1: block 448
}

TEST(MeasuredFormat, ASiteHasThoseThatMeanSomethingThere) {
  const auto of = [](Site site) {
    return NamesOf(FormatsOf(site, ParseMeasuredFormats("int8/head,int8/channel,int8/tensor,int8/row")));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(of(Site::kV), (Names{"int8/head", "int8/channel", "int8/tensor", "int8/row"}));
  EXPECT_EQ(of(Site::kProbs), (Names{"int8/head", "int8/tensor", "int8/row"}));
  EXPECT_EQ(of(Site::kLayerOut), (Names{"int8/channel", "int8/tensor", "int8/row"}));
}

}  // namespace
}  // namespace tare
