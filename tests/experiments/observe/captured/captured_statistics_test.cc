// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/captured/captured_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/observe/statistics_report.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/call.h"

namespace tare::captured_statistics_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

using Arrays = std::map<std::string, TestArray>;

class CapturedStatisticsTest : public testing::Test {
 protected:
  StatisticsSet Collect(const std::vector<Arrays>& files, const std::string& axes = "{}",
                        StatisticsOptions options = {}) {
    options.fresh = true;  // one file takes them all
    std::vector<std::filesystem::path> paths;
    for (size_t i = 0; i < files.size(); ++i) {
      paths.push_back(folder_ / ("f" + std::to_string(i) + ".safetensors"));
      PutArrays(paths.back(), files[i]);
    }
    PutFile(folder_ / "axes.json", axes);
    const CapturedInput input = LoadCaptured(paths, CapturedLayout::Load(folder_ / "axes.json"));
    return CollectCaptured(input, "m", options, "1", folder_ / "s.h5", {});
  }
  static double Measure(const StatisticsSet& set, Site site, size_t row, const char* name) {
    return MeasuresJson(set, site)["rows"].at(row)["measures"].at(name).get<double>();
  }
  const TemporaryFolder folder_;
};

// A causal map of [T, T]: row q has q + 1 shares.
TestArray CausalMap(int64_t heads, int64_t tokens, float tilt) {
  TestArray map = SomeArray({1, heads, tokens, tokens});
  for (int64_t row = 0; row < heads * tokens; ++row) {
    const int64_t q = row % tokens;
    float sum = 0.0f;
    for (int64_t k = 0; k <= q; ++k) sum += 1.0f + tilt * static_cast<float>(k + row);
    for (int64_t k = 0; k < tokens; ++k)
      map.values[static_cast<size_t>(row * tokens + k)] =
          k <= q ? (1.0f + tilt * static_cast<float>(k + row)) / sum : 0;
  }
  return map;
}

TEST_F(CapturedStatisticsTest, FilesOrOneFileOrShardsAreTheSame) {
  const TestArray whole = SomeArray({4, 70, 6});
  const auto part = [&](int64_t first, int64_t count) {
    TestArray a{{count, 70, 6}, {}};
    a.values.assign(whole.values.begin() + first * 420, whole.values.begin() + (first + count) * 420);
    return Arrays{{"layer_out.0", a}};
  };
  const StatisticsOptions formats{.formats = "int8/row,int4/tensor,int4/channel"};
  const StatisticsSet one = Collect({part(0, 4)}, "{}", formats),
                      two = Collect({part(0, 1), part(1, 3)}, "{}", formats);
  EXPECT_EQ(one.sites, two.sites);
  EXPECT_EQ(two.positions, 280u);
  StatisticsOptions shard = formats;
  shard.shard = {.index = 0, .count = 2};
  StatisticsSet first = Collect({part(0, 1), part(1, 3)}, "{}", shard);
  EXPECT_FALSE(first.Whole());
  shard.shard.index = 1;
  first.Merge(Collect({part(0, 1), part(1, 3)}, "{}", shard), "a", "b");
  EXPECT_TRUE(first == two);
  EXPECT_EQ(two.job.at("files"), "2");
}

TEST_F(CapturedStatisticsTest, AxesInAnotherOrderAreTheSame) {
  const TestArray q = SomeArray({2, 3, 5, 4});                          // BHTD
  TestArray turned{{5, 4, 2, 3}, std::vector<float>(q.values.size())};  // TCBH
  for (size_t b = 0; b < 2; ++b)
    for (size_t h = 0; h < 3; ++h)
      for (size_t t = 0; t < 5; ++t)
        for (size_t c = 0; c < 4; ++c)
          turned.values[((t * 4 + c) * 2 + b) * 3 + h] = q.values[((b * 3 + h) * 5 + t) * 4 + c];
  EXPECT_EQ(Collect({{{"q.0", q}}}).sites, Collect({{{"q.0", turned}}}, R"({"q": {"axes": "TCBH"}})").sites);
  EXPECT_EQ(Collect({{{"q.0", q}}}).sites, Collect({{{"h.0.q", q}}}, R"({"q": {"name": "h.{layer}.q"}})").sites);
}

// Padding at either end changes nothing.
TEST_F(CapturedStatisticsTest, PaddingTakesNoPart) {
  constexpr int64_t T = 5, kPadded = 8;
  const TestArray out = SomeArray({1, T, 3}), map = CausalMap(2, T, 0.1f);
  const StatisticsSet plain = Collect({{{"layer_out.0", out}, {"probs.0", map}}});
  for (const int64_t left : {0, 2, 3}) {
    TestArray mask{{1, kPadded}, std::vector<float>(kPadded)};
    TestArray padded_out{{1, kPadded, 3}, std::vector<float>(kPadded * 3, 1000.0f)};
    TestArray padded_map{{1, 2, kPadded, kPadded}, std::vector<float>(2 * kPadded * kPadded)};
    for (int64_t t = 0; t < T; ++t) {
      mask.values[static_cast<size_t>(left + t)] = 1;
      std::copy_n(&out.values[static_cast<size_t>(t * 3)], 3, &padded_out.values[static_cast<size_t>((left + t) * 3)]);
      for (int64_t h = 0; h < 2; ++h)
        std::copy_n(&map.values[static_cast<size_t>((h * T + t) * T)], T,
                    &padded_map.values[static_cast<size_t>((h * kPadded + left + t) * kPadded + left)]);
    }
    const Arrays padded{{"layer_out.0", padded_out}, {"probs.0", padded_map}, {"attention_mask", mask}};
    const StatisticsSet set = Collect({padded}, R"({"probs": {"mask": "causal"}})");
    EXPECT_EQ(set.sites, plain.sites) << left;
    EXPECT_EQ(set.tokens, 5u);
  }
}

TEST_F(CapturedStatisticsTest, MapsAndTheirDifferenceMeasureCancellation) {
  constexpr size_t T = 70;  // two blocks of rows
  const TestArray both = CausalMap(4, T, 0.3f);
  TestArray difference{{1, 2, T, T}, {}};
  for (size_t head = 0; head < 2; ++head) {
    for (size_t i = 0; i < T * T; ++i)  // interleaved: heads 2h and 2h + 1
      difference.values.push_back(both.values[2 * head * T * T + i] - 0.5f * both.values[(2 * head + 1) * T * T + i]);
  }
  const StatisticsSet set =
      Collect({{{"probs.0", both}, {"difference.0", difference}}}, R"({"probs": {"maps": "interleaved"}})");
  double d2 = 0, p2 = 0;
  for (size_t i = 0; i < T * T; ++i) {
    d2 += std::pow(difference.values[i], 2.0);
    p2 += std::pow(both.values[i], 2.0);
  }
  EXPECT_NEAR(Measure(set, Site::kDifference, 0, "cancellation_pooled"), std::sqrt(d2 / p2), 1e-6);
  EXPECT_EQ(set.sites.count({Site::kProbs, 0, 3, 2}), 1u);
  EXPECT_THROW(Collect({{{"probs.0", both}, {"difference.0", SomeArray({1, 3, T, T})}}},
                       R"({"probs": {"maps": "interleaved"}})"),
               Error);
}

TEST_F(CapturedStatisticsTest, WeightsCountOnce) {
  const TestArray w = SomeArray({6, 8}), out = SomeArray({1, 3, 4});
  const StatisticsSet set =
      Collect({{{"q_proj.w.0", w}, {"layer_out.0", out}}, {{"q_proj.w.0", w}, {"layer_out.0", out}}});
  EXPECT_EQ(set.sites.at({Site::kQProjW, 0}).outliers.count(), 48u);
  EXPECT_EQ(set.sites.at({Site::kLayerOut, 0}).outliers.count(), 24u);
}

TEST_F(CapturedStatisticsTest, RefusesImpossibleShardsAndFormats) {
  const Arrays file{{"attn_logits.0", SomeArray({1, 1, 3, 3})}};
  EXPECT_THROW(Collect({file}, "{}", {.shard = {.index = 1, .count = 2}}), Error);
  EXPECT_THROW(Collect({file}, "{}", {.sites = "attn_logits", .formats = "int8/channel"}), Error);
  EXPECT_THROW(Collect({file}, "{}", {.sites = "attn_logits[l1]"}), Error);
}

// Batches of several sequences, with padding, maps beside their difference and weights; 300 rows are two tasks.
TEST_F(CapturedStatisticsTest, AStreamMakesTheFileOfItsBatches) {
  const TestArray mask{{2, 4}, {1, 1, 1, 0, 0, 1, 1, 1}};
  const std::vector<Arrays> files{{{"attention_mask", mask},
                                   {"layer_out.0", SomeArray({2, 4, 8})},
                                   {"probs.0", SomeArray({2, 2, 4, 4}, 0.1f)},
                                   {"difference.0", SomeArray({2, 1, 4, 4}, 0.2f)},
                                   {"q_proj.w.0", SomeArray({6, 8})},
                                   {"of_no_site", SomeArray({3})}},
                                  {{"layer_out.0", SomeArray({1, 300, 8}, 3.0f)},
                                   {"probs.0", SomeArray({1, 2, 300, 300}, 0.3f)},
                                   {"difference.0", SomeArray({1, 1, 300, 300}, 0.4f)}}};
  const std::string axes = R"({"probs": {"maps": "interleaved", "mask": "none"}, "difference": {"mask": "none"}})";
  const StatisticsOptions options{.formats = "int8/row,int8/tensor"};
  Collect(files, axes, options);
  CapturedStream stream("m", CapturedLayout::Load(folder_ / "axes.json"), options, "1");
  for (const Arrays& file : files) {
    for (const auto& [name, array] : file)
      stream.Add({name, DType::kF32, array.shape}, std::as_bytes(std::span(array.values)));
  }
  stream.Finish(folder_ / "stream.h5");
  EXPECT_EQ(GetFile(folder_ / "stream.h5"), GetFile(folder_ / "s.h5"));
}

TEST_F(CapturedStatisticsTest, AStreamRefusesBadBatches) {
  const TestArray a = SomeArray({1, 3, 4}), b = SomeArray({1, 3, 8});
  const auto add = [](CapturedStream& stream, const char* name, const TestArray& array) {
    stream.Add({name, DType::kF32, array.shape}, std::as_bytes(std::span(array.values)));
  };
  EXPECT_THAT(Call([&] { CapturedStream("m", CapturedLayout(), {.formats = "int5/row"}, "1"); }),
              ThrowsMessage<Error>(HasSubstr("--formats")));
  CapturedStream stream("m", CapturedLayout(), {}, "1");
  add(stream, "layer_out.0", a);
  add(stream, "layer_out.0", b);
  EXPECT_THAT(Call([&] { stream.Finish(folder_ / "stream.h5"); }),
              ThrowsMessage<Error>(HasSubstr("batch 1: got layer_out.0 of 0 heads and 8 channels, expected")));
  CapturedStream no_heads("m", CapturedLayout(), {.sites = "layer_out", .formats = "int8/head"}, "1");
  add(no_heads, "layer_out.0", a);
  EXPECT_THAT(Call([&] { add(no_heads, "layer_out.0", a); }),
              ThrowsMessage<Error>(HasSubstr("--formats: int8/head: got none")));
}

}  // namespace
}  // namespace tare::captured_statistics_test
