// SPDX-License-Identifier: Apache-2.0
// Errors under scales that span rows, of whole models, against all of their values kept and quantized in plain double.
#include "experiments/observe/wide_scales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <format>
#include <limits>

#include "experiments/model/sites_of_model.h"
#include "experiments/observe/full_observer.h"
#include "quant/observe/measures.h"
#include "tests/support/logits.h"
#include "tests/support/site_recorder.h"

namespace tare {
namespace {

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
      for (size_t c = 0; c < row.size(); ++c) {
        if (granularity != "channel" || c == column) clip = std::max(clip, std::fabs(row[c]));
      }
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
  set.sites = observer.Take();
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
  set.sites = observer.Take();
  const WeightMatrix& up = model.layers()[1].up.weight;
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

TEST(WideScales, ATensorIsWhatIsSelected) {
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
}  // namespace tare
