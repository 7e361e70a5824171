// SPDX-License-Identifier: Apache-2.0
// Every sentence that a report derives from its figures, from given results: each kind of figure has one, and another
// figure gives another sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "experiments/report/figures/figures.h"
#include "quant/file/hdf5.h"
#include "tests/support/report_material.h"
#include "tests/support/sums.h"

namespace tare::report_findings_test {
namespace {

using ::testing::ElementsAreArray;
using Sentences = std::vector<std::string>;

SiteStatistics StatisticsOf(const StatisticsSet& set, Site site, const std::vector<float>& values, double error) {
  SiteStatistics s(set.Sums(site).size());
  double squares = 0;
  for (const float value : values) {
    s.outliers.magnitudes.Add(value);
    s.outliers.top.Offer(value, {});
    squares += value * value;
  }
  const auto add = [&](const char* name, double sum) {
    s.folds[0].sums.Add(FindSum(set, site, std::string("int4/row.") + name).value(), sum);
  };
  s.folds[0].sums.Add(kSumX2, squares);
  add("square", squares);
  add("error2", error);
  add("product", squares);
  return s;
}

StatisticsSet Statistics(float largest) {
  StatisticsSet set{.formats = {"int4/row"}};
  set.sites.emplace(SiteKey{Site::kAttnLogits, 2, 1, 1},
                    StatisticsOf(set, Site::kAttnLogits, {largest, 0.25f, 0.25f, 2.0f}, 4.0));
  set.sites.emplace(SiteKey{Site::kLayerOut, 2}, StatisticsOf(set, Site::kLayerOut, {2 * largest, 64.0f}, 1.0));
  return set;
}

Json Change(double value) { return {{"value", value}, {"low", value - 1}, {"high", value + 1}}; }

Json EvaluationOf(double last) {
  const Json ranges = Json::array({{{"first", 1}, {"last", 1}, {"tokens", 4}, {"kld", 0.5}, {"perplexity_ratio", 1.5}},
                                   {{"first", 2}, {"last", 3}, {"tokens", 8}, {"kld", last}, {"perplexity_ratio", 1}}});
  const Json losses = Json::array({{{"first", 1}, {"last", 1}, {"tokens", 4}, {"nll", 6.0}, {"nll_stderr", 0.5}},
                                   {{"first", 2}, {"last", 3}, {"tokens", 8}, {"nll", last}, {"nll_stderr", 0.5}}});
  const Json needles =
      Json::array({{{"depth", 0}, {"length", 512}, {"n", 10}, {"acc", 1.0}, {"acc_low", 0.1}, {"acc_high", 1.0}},
                   {{"depth", 1}, {"length", 512}, {"n", 10}, {"acc", last}, {"acc_low", 0.1}, {"acc_high", 1.0}}});
  return {{"schema", "tare.eval/1"},
          {"model", "m"},
          {"plan", "q=int4/token"},
          {"tasks",
           {{"divergence:t", {{"kld", 0.375}, {"by_context", ranges}}},
            {"perplexity:t", {{"by_position", losses}}},
            {"choice:needles", {{"by", needles}}}}}};
}

Json AttributionOf(double alone) {
  const Json part{
      {"part", "k"}, {"alone_plan", "p"}, {"without_plan", "q"}, {"alone", Change(alone)}, {"taken_out", Change(6)}};
  const Json figure{{"task", "perplexity:t"}, {"figure", "perplexity"}, {"n", 40},
                    {"parts", {part}},        {"change", Change(9)},    {"left_over", Change(9 - alone)}};
  return {{"schema", "tare.attribution/1"}, {"model", "m"}, {"plan", "k=int4/token"}, {"figures", {figure}}};
}

Json DecodingOf(double seconds) {
  return {{"schema", "tare.bench/1"},
          {"bench", "decode"},
          {"cases",
           {{{"kernel", "tare"},
             {"family", "v1"},
             {"plan", ""},
             {"n", 1000},
             {"d", 64},
             {"heads", 2},
             {"batch", 1},
             {"threads", 1},
             {"seconds", seconds},
             {"bytes", 512000},
             {"read_gbps", 10.24},
             {"rel_l2", 0.01}}}}};
}

// All that a report takes, with figures that hang on `f`.
Material MaterialFor(double f, const TemporaryFolder& folder) {
  Material material = MaterialOf(
      {SweepOf({CellsOf("m", {{16, 20}, {4, 20 + 4 * f}})}),
       SweepOf({CellsOf("m", {{16, 20}}), CellsOf("m", {{4, 21}}, "q"), CellsOf("m", {{4, 24 + f}}, "k")}),
       SweepOf({Json::array({DivergenceCell("m", "k=int4/token", 4.5, f)})}), EvaluationOf(f), AttributionOf(10 * f),
       DecodingOf(f / 2500), SearchOf("m"), MapsOf("m", 3 * f, 0.2, 0.3), HeadsOf("m", f)});
  material.statistics.emplace_back("m", Statistics(static_cast<float>(28 * f)));
  const std::filesystem::path dump = folder / ("d" + std::to_string(f) + ".h5");
  Hdf5Writer file(dump);
  const std::vector<float> values(4 * 32, static_cast<float>(f));
  file.WriteDataset("embed", DType::kF32, {1, 4, 32}, values.data());
  file.Commit();
  material.dumps.emplace_back(dump, "m", "f32");
  return material;
}

std::map<std::string, Sentences> FindingsOf(const Material& material) {
  std::map<std::string, Sentences> findings;
  for (const FigureKind& kind : kFigureKinds) {
    Sentences& of = findings[std::string(kind.name)];
    for (const FigureData& figure : kind.make(material)) {
      if (figure.on_page) of.insert(of.end(), figure.findings.begin(), figure.findings.end());
    }
  }
  return findings;
}

const std::map<std::string, Sentences> kExpected{
    {"attention",
     {"In head 1 of layer 2 of m, k=int4/token changes an entry of the difference of maps by at most 0.25, where the "
      "largest is 0.5."}},
    {"attribution",
     {"With 4 bits for one site alone, k changes m's perplexity on text most: it rises by 4.25 [3.87, 4.63] over 24 "
      "windows, from 20.00 to 24.25.",
      "In m, k is the most expensive part of k=int4/token: alone it changes perplexity on t by +2.50 [+1.50, +3.50], "
      "and "
      "the whole plan by +9.00 [+8.00, +10.00], of which +6.50 [+5.50, +7.50] is left over."}},
    {"bits",
     {"With 4 bits for attn_logits and one scale per tensor, m's perplexity on text rises by 1.00 [0.62, 1.38] over 24 "
      "windows, from 20.00 to 21.00."}},
    {"caches",
     {"The least divergence of m on divergence:text, in nats per token: with 10.2 bits 0.25 (k=int4/token)."}},
    {"channels", {"The largest magnitude of embed in m is 0.25, at token 0, channel 0."}},
    {"error", {"Of these sites, attn_logits in m has the lowest signal-to-noise ratio, 11.2 dB with int4/row."}},
    {"frontier",
     {"The cheapest measured plan of m that loses at most 0.02 nats per token has 8.00 bits per operand and loses "
      "0.0125 [0.01, 0.015]; the prediction was 0.01."}},
    {"histograms",
     {"With one scale for attn_logits of m, int4 rounds 50.0 % of the values to 0.",
      "With one scale for layer_out of m, int4 rounds 0.0 % of the values to 0."}},
    {"largest",
     {"The largest magnitude of an attention logit of m is 7, in head 0 of layer 2.",
      "The largest magnitude of a hidden state of m is 64, in channel 0 of layer 2."}},
    {"losses",
     {"The loss of m under q=int4/token on t is 6.00 +/- 0.50 nats per token with 1 token of context, and 0.25 +/- "
      "0.50 "
      "with 2 to 3 tokens."}},
    {"map_errors",
     {"In m under k=int4/token, the largest error of an attention map is 0.75 of the map's norm, in map 2 of layer 1. "
      "The "
      "largest error of the difference of two maps is 0.0625 of its norm, in layer 0; taking the difference cancels a "
      "share of +0.250 [+0.200, +0.300] of both maps' errors there."}},
    {"needles",
     {"m under q=int4/token finds 12 of the 20 needles of needles, and the fewest at depth 1 and length 512: a share "
      "of "
      "0.25 [0.10, 1.00]."}},
    {"positions",
     {"The predictions of m under q=int4/token diverge by 0.375 nats per token: by 0.5 with 1 token of context, and by "
      "0.25 with 2 to 3 tokens."}},
    {"roofline",
     {"The kernel nearest to its roof is tare in decode, v1 (1000 keys, 2 heads of 64, 1 sequence): it reaches 50 % of "
      "20 Gop/s."}},
};

TEST(ReportFindingsTest, EveryKindOfSentenceFollowsFromTheFigures) {
  const TemporaryFolder folder;
  const std::map<std::string, Sentences> said = FindingsOf(MaterialFor(0.25, folder)),
                                         other = FindingsOf(MaterialFor(0.125, folder));
  ASSERT_EQ(said.size(), std::size(kFigureKinds));
  for (const auto& [kind, sentences] : said) {
    const auto expected = kExpected.find(kind);
    EXPECT_THAT(sentences, ElementsAreArray(expected == kExpected.end() ? Sentences() : expected->second)) << kind;
    // the same search in both; one model, and no versions of it; no figure but logits, which another one tells
    const bool given = kind == "maps" || kind == "frontier" || kind == "differences" || kind == "methods";
    EXPECT_EQ(sentences == other.at(kind), given) << kind;
  }
}

}  // namespace
}  // namespace tare::report_findings_test
