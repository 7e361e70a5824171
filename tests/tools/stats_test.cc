// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "quant/file/sha256.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::stats_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kTops[] = {"top1", "top2", "top3", "top10", "top100"};

// What tare.stats/3 promises of one set of values: numbers, in falling order.
void ExpectFigures(const Json& figures) {
  EXPECT_TRUE(figures.at("count").is_number_integer());
  EXPECT_EQ(figures.at("absmax"), figures.at("top1"));
  for (size_t i = 1; i < std::size(kTops); ++i)
    EXPECT_GE(figures.at(kTops[i - 1]).get<double>(), figures.at(kTops[i]).get<double>());
  EXPECT_GT(figures.at("top100").get<double>(), figures.at("median").get<double>());
  EXPECT_GT(figures.at("median").get<double>(), 0);
}

// The finite magnitudes of the golden tensors whose names begin so, the largest first: [B,T,C], or logits [B,H,T,T]. Of
// a matrix of each sequence (and head) without the first row, or of logits without its one key.
std::vector<float> Magnitudes(const std::string& model, const std::string& prefix, int64_t from) {
  const Safetensors expected(GoldenFolder(model) / "expected.safetensors");
  std::vector<float> values;
  for (const TensorView& tensor : expected.tensors()) {
    if (!tensor.name.starts_with(prefix)) continue;
    const std::vector<float> all = ValuesOf<float>(expected, tensor.name);
    const auto columns = static_cast<size_t>(tensor.shape.back()), matrix = columns * 37;
    const size_t first = prefix.starts_with("attn_logits") ? 1 : static_cast<size_t>(from) * columns;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % matrix >= first && std::isfinite(all[i])) values.push_back(std::abs(all[i]));
    }
  }
  std::ranges::sort(values, std::greater<>());
  return values;
}

void ExpectLikeGolden(const Json& figures, const std::vector<float>& magnitudes) {
  EXPECT_EQ(figures.at("count"), magnitudes.size());
  for (const char* top : kTops) {
    const float expected = magnitudes.at(std::stoul(top + 3) - 1);
    EXPECT_NEAR(figures.at(top).get<double>(), expected, 2e-5 * magnitudes[0]) << top;
  }
  EXPECT_NEAR(figures.at("median").get<double>(), magnitudes[magnitudes.size() / 2],
              4e-3 * magnitudes[magnitudes.size() / 2]);
}

TEST(StatsTest, JsonHasTheFiguresOfTheReference) {
  for (const char* name : {"llama-gqa", "diffllama-mha"}) {
    const std::string ids = GoldenFolder(name) / "expected.safetensors";
    const Outcome outcome = CallTare({"stats", GoldenFolder(name), "--input", ids, "--json", "-"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json.at("schema"), "tare.stats/3");
    EXPECT_EQ(json.at("model"), name);
    EXPECT_EQ(json.at("tokens"), 2 * 37);
    EXPECT_EQ(json.at("input_sha256"), Sha256OfFile(ids));
    ExpectLikeGolden(json.at("attn_logits"), Magnitudes(name, "attn_logits.", 0));
    ExpectLikeGolden(json.at("layer_out"), Magnitudes(name, "layer_out.", 0));
    EXPECT_EQ(json.at("from"), 0);
    EXPECT_EQ(json.at("rest").at("from"), 1);
    ExpectLikeGolden(json["rest"].at("attn_logits"), Magnitudes(name, "attn_logits.", 1));
    ExpectLikeGolden(json["rest"].at("layer_out"), Magnitudes(name, "layer_out.", 1));
    ASSERT_EQ(json.at("layers").size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const Json& layer = json["layers"][i];
      EXPECT_EQ(layer.at("layer"), i);
      ExpectFigures(layer.at("attn_logits"));
      ExpectFigures(layer.at("layer_out"));
      ExpectLikeGolden(layer["attn_logits"], Magnitudes(name, "attn_logits." + std::to_string(i), 0));
    }
  }
}

TEST(StatsTest, ModelsAreShownSideBySide) {
  const TemporaryFolder folder;
  const std::string ids = folder / "ids.safetensors", json = folder / "s.json", csv = folder / "s.csv";
  PutManyIds(ids, 2, 30);
  const Outcome outcome = CallTare({"stats", GoldenFolder("llama-mha"), GoldenFolder("diffllama-mha"), "--input", ids,
                                    "--json", json, "--csv", csv});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"top-1 ", "top-100", "median", "attn_logits  llama-mha", "attn_logits  diffllama-mha",
                           "  map 2", "layer_out    llama-mha", "60 tokens of ", "\n  from 1     diffllama-mha",
                           "from 1: without position 0 of every sequence\n", "top-1  layer  channel  top-10",
                           "layer, channel: where top-1 is", "These models are one sample of training"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_FALSE(CallTare({"stats", GoldenFolder("llama-mha"), "--input", ids}).out.contains("one sample"));
  const Json models = Json::parse(GetFile(json));
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].at("model"), "llama-mha");
  EXPECT_EQ(models[1].at("model"), "diffllama-mha");
  ASSERT_EQ(models[1].at("maps").size(), 2u);
  // All pooled, two maps of the differential model, hidden states; the same per layer, with one row per head (four) and
  // no maps.
  const std::string rows = GetFile(csv);
  // All of it twice: of all positions, and of the rest.
  EXPECT_EQ(std::ranges::count(rows, '\n'), 1 + 2 * (2 + 2 * 6) + 2 * (2 + 2 + 3 * 6));
  EXPECT_THAT(rows,
              testing::StartsWith("model,site,layer,head,map,from,count,absmax,top1,top2,top3,top10,top100,median\n"));
}

TEST(StatsTest, TheRestBeginsWhereItIsAsked) {
  const TemporaryFolder folder;
  const std::string ids = GoldenFolder("llama-gqa") / "expected.safetensors", file = folder / "s.h5";
  const auto run = [&](const std::string& skip, std::vector<std::string> more = {}) {
    std::vector<std::string> command{"stats", GoldenFolder("llama-gqa"), "--input", ids, "--json", "-", "--skip-first",
                                     skip};
    command.insert(command.end(), more.begin(), more.end());
    return CallTare(command);
  };
  const Json json = Json::parse(run("4", {"--out", file}).out);
  EXPECT_EQ(json.at("rest").at("from"), 4);
  ExpectLikeGolden(json["rest"].at("layer_out"), Magnitudes("llama-gqa", "layer_out.", 4));
  EXPECT_EQ(Json::parse(run("4").out).at("rest"), json["rest"]);
  EXPECT_FALSE(Json::parse(run("0").out).contains("rest"));
  EXPECT_EQ(run("64").exit_code, 2);
  EXPECT_THAT(CallTare({"stats", "show", file, "--site", "layer_out"}).out,
              testing::AllOf(HasSubstr("all positions\n"), HasSubstr("without positions 0 to 3\n")));
  EXPECT_THAT(CallTare({"stats", "show", file, "--site", "up_proj.w"}).out,
              testing::AllOf(HasSubstr("all rows\n"), testing::Not(HasSubstr("positions"))));
  const std::string overview = CallTare({"stats", "show", file}).out;
  EXPECT_THAT(overview, HasSubstr("from 4: without positions 0 to 3 of every sequence\n"));
}

TEST(StatsTest, EveryTokenOfATextIsSeen) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt";
  PutFile(text, "Call me Ishmael. Some years ago, never mind how long precisely, I went to sea.");
  const auto tokens = [&](std::vector<std::string> options) {
    std::vector<std::string> command{"stats", PairFolder("novels-differential"), "--input", text, "--json", "-"};
    command.insert(command.end(), options.begin(), options.end());
    return Json::parse(CallTare(command).out).at("tokens").get<int64_t>();
  };
  const int64_t all = tokens({});
  EXPECT_GT(all, 10);
  EXPECT_EQ(tokens({"--window", "6"}), all);
  EXPECT_EQ(tokens({"--tokens", "7"}), 7);
  EXPECT_EQ(tokens({"--window", "6", "--limit", "2"}), 2 * 5);
}

TEST(StatsTest, ItemsMeasureTheAttentionOfTheirAnswer) {
  const TemporaryFolder folder;
  const std::string items = PairFolder("needles-4.jsonl"), file = folder / "s.h5";
  const std::vector<std::string> command{
      "stats",     PairFolder("novels-differential"), "--input", items, "--limit", "3", "--out", file, "--sites",
      "difference"};
  const Outcome outcome = CallTare(command);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json shown =
      Json::parse(CallTare({"stats", "show", file, "--site", "difference", "--measures", "--json", "-"}).out);
  for (const Json& row : shown.at("rows")) {
    const double answer = row.at("measures").at("answer_mass"), noise = row["measures"].at("noise_mass");
    EXPECT_GT(answer, 0.0);
    EXPECT_GT(noise, 0.0);
    EXPECT_LT(answer + noise, 1.0);  // <s> and the ending's own tokens have the rest
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--spans", items}, {"--window", "100"}, {"--tokens", "100"}}) {
    std::vector<std::string> refused = command;
    refused.insert(refused.end(), more.begin(), more.end());
    const Outcome wrong = CallTare(refused);
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.err, HasSubstr("--input: got items with --spans, --window or --tokens, expected only --limit"));
  }
}

TEST(StatsTest, FiguresDoNotDependOnThreads) {
  const std::string ids = GoldenFolder("diffllama-gqa") / "expected.safetensors";
  const auto run = [&](const char* threads) {
    return CallTare({"stats", GoldenFolder("diffllama-gqa"), "--input", ids, "--json", "-", "--threads", threads}).out;
  };
  const std::string one = run("1");
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(run("3"), one);
}

}  // namespace
}  // namespace tare::stats_test
