// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <format>
#include <limits>
#include <random>
#include <span>

#include "experiments/model/plan_run.h"
#include "experiments/observe/full_observer.h"
#include "experiments/observe/statistics_job.h"
#include "quant/base/message.h"
#include "quant/format/round.h"
#include "quant/observe/statistics_set.h"
#include "tests/support/logits.h"
#include "tests/support/quantize_group.h"
#include "tests/support/site_recorder.h"

namespace tare::measured_test {
namespace {

using ::testing::HasSubstr;

const ModelSites kDiff = ModelSitesOf({.family = "diffllama", .layers = 4, .heads = 8, .kv_heads = 4});
const ModelSites kPlain = ModelSitesOf({.family = "llama", .layers = 4, .heads = 8, .kv_heads = 4});

std::string RefusedSites(std::string_view text, const ModelSites& model = kDiff) {
  try {
    SiteSelection::Parse(text, model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SiteSelection, EmptyTextMeansAll) {
  const SiteSelection all = SiteSelection::Parse("", kDiff);
  EXPECT_EQ(all.canonical(), "all");
  for (const SiteInfo& info : kSites)
    EXPECT_EQ(all.Wants(info.site, 3), kDiff.Has(info.site) && !IsCache(info.site)) << info.name;
  EXPECT_TRUE(all.Admits({Site::kDifference, 1, 2}));
  EXPECT_FALSE(SiteSelection::Parse("", kPlain).Wants(Site::kDifference, 0));
}

TEST(SiteSelection, SelectsAsPlansDo) {
  const SiteSelection s = SiteSelection::Parse(" attn_logits[l1-2, m2], layer_out[l3],linear_in", kDiff);
  EXPECT_EQ(s.canonical(), "attn_logits[l1-2,m2],layer_out[l3],linear_in");
  EXPECT_TRUE(s.Wants(Site::kAttnLogits, 1));
  EXPECT_FALSE(s.Wants(Site::kAttnLogits, 0));
  EXPECT_TRUE(s.Admits({Site::kAttnLogits, 2, 7, 2}));
  EXPECT_FALSE(s.Admits({Site::kAttnLogits, 2, 7, 1}));
  EXPECT_FALSE(s.Wants(Site::kLayerOut, 2));
  EXPECT_TRUE(s.Wants(Site::kDownProjIn, 0));
  EXPECT_FALSE(s.Wants(Site::kEmbed, {}));
}

TEST(SiteSelection, SelectionsThatMatchNothingAreRefused) {
  EXPECT_THAT(RefusedSites("logits"), HasSubstr("--sites 'logits'"));
  EXPECT_THAT(RefusedSites("attn_logits[l4]"), HasSubstr("got layer 4 of attn_logits, expected 0 to 3"));
  EXPECT_THAT(RefusedSites("k[h4]"), HasSubstr("got head 4 of k, expected 0 to 3"));
  EXPECT_THAT(RefusedSites("difference[h4]"), HasSubstr("got head 4 of difference, expected 0 to 3"));
  EXPECT_THAT(RefusedSites("attn_logits[m2]", kPlain), HasSubstr("got map 2 of attn_logits, expected 1 to 1"));
  EXPECT_THAT(RefusedSites("difference", kPlain), HasSubstr("got difference, expected a site of a llama model"));
  EXPECT_THAT(RefusedSites("cache_k"), HasSubstr("got cache_k, expected a site that forward passes show"));
  EXPECT_THAT(RefusedSites("embed[l0]"), HasSubstr("no layers"));
  EXPECT_THAT(RefusedSites("q=int8/row"), HasSubstr("got '='"));
  EXPECT_THAT(RefusedSites("q,,k"), HasSubstr("--sites"));
  EXPECT_THAT(RefusedSites("q,"), HasSubstr("--sites"));
}

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
  EXPECT_THAT(Refused("u8/row"), HasSubstr("expected int8, int6, int4, int3 or int2"));
  for (const char* format : {"int8/block4.channel", "int8/heads"})
    EXPECT_THAT(Refused(format), HasSubstr("expected one scale per tensor, head, channel, row"));
  EXPECT_THAT(Refused("int8"), HasSubstr("--formats 'int8'"));
  EXPECT_THAT(Refused("int8/row,int8/row"), HasSubstr("twice"));
  EXPECT_THAT(Refused("int8/row,"), HasSubstr("after the last comma"));
}

// Integers of three and two bits are of weights.
TEST(MeasuredFormat, FewBitsAreMeasuredAtWeights) {
  const std::vector<MeasuredFormat> formats = ParseMeasuredFormats("int3/row,int4/row,int2/group16");
  EXPECT_EQ(FormatsOf(Site::kLayerOut, formats).size(), 1u);
  EXPECT_EQ(FormatsOf(Site::kProbs, formats).size(), 1u);
  EXPECT_EQ(FormatsOf(Site::kQProjW, formats).size(), 3u);
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

TEST(MeasuredFormat, ASiteMeasuresItsOwnFormats) {
  const auto of = [](Site site) {
    return NamesOf(FormatsOf(site, ParseMeasuredFormats("int8/head,int8/channel,int8/tensor,int8/row")));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(of(Site::kV), (Names{"int8/head", "int8/channel", "int8/tensor", "int8/row"}));
  EXPECT_EQ(of(Site::kProbs), (Names{"int8/head", "int8/tensor", "int8/row"}));
  EXPECT_EQ(of(Site::kLayerOut), (Names{"int8/channel", "int8/tensor", "int8/row"}));
}

// Errors under scales that span rows, for whole models, against all of their values kept and quantized in plain double.

struct Errors {
  double x2 = 0, x1 = 0, error2 = 0, error1 = 0, product = 0, square = 0;

  // round.h spelled out: inv and scale in f32, half to even.
  void Add(float x, float clip, int largest_code, bool is_unsigned) {
    const float inv = static_cast<float>(largest_code) / clip, scale = clip / static_cast<float>(largest_code);
    const float code = std::clamp(std::nearbyint(x * inv), static_cast<float>(is_unsigned ? 0 : -largest_code),
                                  static_cast<float>(largest_code));
    const float quantized = clip < 0x1p-100f ? 0.0f : code * scale;
    const double error = static_cast<double>(x) - quantized;
    x2 += static_cast<double>(x) * x;
    x1 += std::fabs(x);
    error2 += error * error;
    error1 += std::fabs(error);
    product += static_cast<double>(x) * quantized;
    square += static_cast<double>(quantized) * quantized;
  }
};

// A format as this test has it: bits and what shares a scale.
struct Asked {
  const char* name;
  int bits;
  const char* granularity;
};
constexpr Asked kAsked[] = {{"int8/tensor", 8, "tensor"}, {"int6/head", 6, "head"}, {"int4/channel", 4, "channel"}};

bool OfKeys(Site site) { return site == Site::kAttnLogits || site == Site::kProbs || site == Site::kDifference; }

// The largest magnitudes of what shares a scale with (key, sequence, column).
float ClipOf(const std::map<SiteKey, Seen>& sites, const SiteKey& key, const std::string& granularity, int64_t sequence,
             size_t column) {
  float clip = 0;
  for (const auto& [other, seen] : sites) {
    const bool shares = granularity == "tensor" ? other.site == key.site && other.layer == key.layer : other == key;
    if (!shares) continue;
    for (const auto& [place, row] : seen.rows) {
      if (place.first != sequence) continue;
      const std::span<const float> all = row;
      for (const float x : granularity == "channel" ? all.subspan(column, 1) : all) clip = std::max(clip, std::fabs(x));
    }
  }
  return clip;
}

Errors PlainErrors(const std::map<SiteKey, Seen>& sites, const SiteKey& key, const Asked& asked) {
  const bool is_unsigned = key.site == Site::kProbs;
  const int largest_code = is_unsigned ? (1 << asked.bits) - 1 : (1 << (asked.bits - 1)) - 1;
  std::map<std::pair<int64_t, size_t>, float> clips;
  Errors errors;
  for (const auto& [place, row] : sites.at(key).rows) {
    if (key.site == Site::kAttnLogits && row.size() == 1) continue;  // the softmax ignores it; the scale spans it
    for (size_t c = 0; c < row.size(); ++c) {
      const size_t column = std::string(asked.granularity) == "channel" ? c : 0;
      const auto [clip, is_new] = clips.try_emplace({place.first, column});
      if (is_new) clip->second = ClipOf(sites, key, asked.granularity, place.first, column);
      errors.Add(row[c], clip->second, largest_code, is_unsigned);
    }
  }
  return errors;
}

std::map<std::string, double> Named(const Measures& measures) { return {measures.begin(), measures.end()}; }

void ExpectErrors(const Measures& measures, const std::string& name, const Errors& e) {
  const std::map<std::string, double> m = Named(measures);
  ASSERT_TRUE(m.contains(name + ".sqnr_db")) << name;
  // Sums of some thousand terms in double, in another order.
  EXPECT_NEAR(m.at(name + ".sqnr_db"), 10 * std::log10(e.x2 / e.error2), 1e-9) << name;
  EXPECT_NEAR(m.at(name + ".cosine"), e.product / std::sqrt(e.x2 * e.square), 1e-12) << name;
  EXPECT_NEAR(m.at(name + ".relative_l1"), e.error1 / e.x1, 1e-12) << name;
}

FullObserver Observer(const Model& model, const std::string& sites, const std::string& formats) {
  return FullObserver(SiteSelection::Parse(sites, ModelSitesOf(model)), ParseMeasuredFormats(formats));
}

class WideScalesTest : public testing::TestWithParam<const char*> {};

TEST_P(WideScalesTest, ErrorsAreThoseOfTheValuesQuantizedInPlainDouble) {
  Model model(GoldenFolder(GetParam()));
  FullObserver observer = Observer(model, "", "int8/tensor,int6/head,int4/channel");
  Recorder recorder;
  ASSERT_NE(observer.FirstPass(), nullptr);
  SiteVisitor* const first[] = {observer.FirstPass(), &recorder};
  model.Forward(GoldenBatch(GetParam()), first);
  SiteVisitor* const second[] = {&observer};
  model.Forward(GoldenBatch(GetParam()), second);
  StatisticsSet set;
  set.formats = {"int8/tensor", "int6/head", "int4/channel"};
  set.MergeSites(observer.Take());
  ASSERT_EQ(set.sites.size(), recorder.sites.size());
  int channels = 0, heads = 0;
  for (const auto& [key, seen] : recorder.sites) {
    SCOPED_TRACE(TextOf(key));
    const Measures measures = AllMeasures(set, key);
    for (const Asked& asked : kAsked) {
      const bool has_it = std::string(asked.granularity) == "channel" ? !OfKeys(key.site)
                          : std::string(asked.granularity) == "head"  ? key.head.has_value()
                                                                      : true;
      EXPECT_EQ(Named(measures).contains(std::string(asked.name) + ".sqnr_db"), has_it) << asked.name;
      if (!has_it) continue;
      ExpectErrors(measures, asked.name, PlainErrors(recorder.sites, key, asked));
      channels += std::string(asked.granularity) == "channel";
      heads += std::string(asked.granularity) == "head";
    }
  }
  EXPECT_GT(channels, 10);
  EXPECT_GT(heads, 10);
}
INSTANTIATE_TEST_SUITE_P(Golden, WideScalesTest, testing::Values("llama-gqa", "diffllama-mha", "diffllama-gqa"));

// A weight's tensor is the matrix, its channel an output channel: a row.
TEST(WideScales, OfWeights) {
  Model model(GoldenFolder("llama-mha"));
  FullObserver observer = Observer(model, "weights", "int6/tensor,int6/channel");
  observer.ObserveWeights(model);
  StatisticsSet set;
  set.formats = {"int6/tensor", "int6/channel"};
  set.MergeSites(observer.Take());
  const WeightMatrix& up = model.layers()[1].up.stored();
  std::vector<Row> rows(static_cast<size_t>(up.out), Row(static_cast<size_t>(up.in)));
  float all = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    RowAsFloat(up, static_cast<int64_t>(r), rows[r].data());
    for (const float v : rows[r]) all = std::max(all, std::fabs(v));
  }
  Errors tensor, channel;
  for (const Row& row : rows) {
    float largest = 0;
    for (const float v : row) largest = std::max(largest, std::fabs(v));
    for (const float v : row) tensor.Add(v, all, 31, false), channel.Add(v, largest, 31, false);
  }
  const Measures measures = AllMeasures(set, {Site::kUpProjW, 1});
  ExpectErrors(measures, "int6/tensor", tensor);
  ExpectErrors(measures, "int6/channel", channel);
}

TEST(WideScales, ATensorIsTheSelectedPart) {
  const ModelConfig config{.family = "llama", .layers = 2, .heads = 2, .kv_heads = 2};
  const SiteSelection selection = SiteSelection::Parse("q[l1,h0]", ModelSitesOf(config));
  const std::vector<MeasuredFormat> formats = ParseMeasuredFormats("int8/tensor,int8/channel");
  WideScales scales(selection, formats);
  EXPECT_TRUE(scales.Any());
  EXPECT_TRUE(scales.Wants(Site::kQ, 1));
  EXPECT_FALSE(scales.Wants(Site::kQ, 0));
  EXPECT_FALSE(scales.Wants(Site::kK, 1));
  float values[] = {1, -7, std::numeric_limits<float>::quiet_NaN(), 100, 5, 2}, others[] = {50, 60};
  const SiteBlock of_head_0{
      .site = Site::kQ, .layer = 1, .head = 0, .map = 1, .rows = 3, .first_columns = 2, .values = values, .stride = 2};
  const SiteBlock of_head_1{
      .site = Site::kQ, .layer = 1, .head = 1, .map = 1, .rows = 1, .first_columns = 2, .values = others, .stride = 2};
  scales.BeginBatch(1);
  scales.Visit(of_head_0, 0);
  scales.Visit(of_head_1, 0);
  EXPECT_EQ(scales.Find(of_head_0).tensor, 7.0f);  // a row with NaN takes no part
  EXPECT_EQ(scales.Find(of_head_0).head, 7.0f);
  EXPECT_EQ(Row(scales.Find(of_head_0).channels.begin(), scales.Find(of_head_0).channels.end()), (Row{5, 7}));
  EXPECT_EQ(scales.Find(of_head_1).head, 0.0f);
  EXPECT_FALSE(WideScales(selection, ParseMeasuredFormats("int8/row,int4/group2")).Any());
}

}  // namespace
}  // namespace tare::measured_test
