// SPDX-License-Identifier: Apache-2.0
// Operands counted one by one, by walking through the products of a window.
//
// Counted bits against files that tare quantize writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "experiments/model/config/family.h"
#include "experiments/quantize/quantize.h"
#include "experiments/studies/search/search.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::search_costs_test {
namespace {

// Operands of q and k (with `values`, of v and the maps), the mean over the window's queries.
double ByHand(const ModelConfig& c, int64_t window, int64_t sliding, bool values) {
  int64_t products = 0;
  for (int64_t t = 0; t < window; ++t) {
    for (int64_t key = 0; key <= t; ++key) {
      if (sliding > 0 && key + sliding <= t) continue;
      for (const OutputHead& head : HeadTable(c)) products += head.Maps() * (values ? head.VSlices() : 1) * c.head_dim;
    }
  }
  return static_cast<double>(products) / static_cast<double>(window);
}

TEST(OperandsTest, OfAttention) {
  for (const char* name : {"llama-mha", "diffllama-mha", "diffllama-gqa"}) {
    ModelConfig c = LoadConfig(GoldenFolder(name));
    for (const int sliding : {0, 5}) {
      c.windows.assign(static_cast<size_t>(c.layers), sliding);
      const auto of = [&](Site site) { return OperandsPerToken(site, 0, c, 17); };
      EXPECT_NEAR(of(Site::kQ), ByHand(c, 17, sliding, false), 1e-9) << name;
      EXPECT_EQ(of(Site::kK), of(Site::kQ));
      EXPECT_NEAR(of(Site::kV), ByHand(c, 17, sliding, true), 1e-9) << name;
      EXPECT_EQ(of(Site::kProbs), of(Site::kV));
      EXPECT_EQ(of(Site::kDifference), of(Site::kV) / Maps(c));
      EXPECT_NEAR(of(Site::kAttnLogits), of(Site::kQ) / c.head_dim, 1e-9);
    }
  }
}

// Every query reads the keys and values that it sees, of each key/value head once.
TEST(OperandsTest, OfCaches) {
  const ModelConfig c = LoadConfig(GoldenFolder("diffllama-gqa"));
  for (const Site site : {Site::kCacheK, Site::kCacheV})
    EXPECT_EQ(OperandsPerToken(site, 0, c, 17), double{9} * c.kv_heads * c.head_dim);  // (17 + 1) / 2 keys
}

TEST(OperandsTest, OfLinearLayers) {
  const ModelConfig c = LoadConfig(GoldenFolder("llama-mha"));
  const auto of = [&](Site site) { return OperandsPerToken(site, 0, c, 8); };
  EXPECT_EQ(of(Site::kUpProjW), double{1} * c.hidden * c.ffn);
  EXPECT_EQ(of(Site::kDownProjIn), of(Site::kDownProjW));
  EXPECT_EQ(of(Site::kLmHeadIn), double{1} * c.hidden * c.vocabulary);
  EXPECT_EQ(of(Site::kLayerOut), c.hidden);
}

TEST(StoredBitsTest, AreThoseOfTheFile) {
  const std::filesystem::path model = GoldenFolder("diffllama-mha");
  const ModelConfig config = LoadConfig(model);
  const TemporaryFolder folder;
  for (const char* text : {"weights=int4/group16", "weights=int3/channel", "weights=int2/group16+zero",
                           "weights=int6/group16+min", "weights=mxfp4", "weights=nvfp4", "weights=int8/tensor"}) {
    const Plan plan = Plan::Parse(text);
    std::vector<SearchPart> parts = SearchParts({plan}, config, 32);
    const StoredBits stored = CountStoredBits(model, config, parts);
    double rounded = stored.others, exact = stored.others, weights = 0;
    for (const SearchPart& part : parts) {
      ASSERT_EQ(part.levels.size(), 2u);
      exact += part.levels[0].of.cost;
      rounded += part.levels[1].of.cost;
      weights += part.operands;
    }
    EXPECT_EQ(exact, 8.0 * static_cast<double>(Checkpoint(model).total_bytes())) << text;
    EXPECT_EQ(weights, stored.weights) << text;
    const std::filesystem::path out = folder / "q.h5";
    Quantize({.model = model, .plan = plan, .out = out}, {});
    EXPECT_EQ(rounded, 8.0 * static_cast<double>(Checkpoint(out).total_bytes())) << text;
  }
}

TEST(StoredBitsTest, OnlyWeightsHaveThem) {
  const std::filesystem::path model = GoldenFolder("diffllama-mha");
  const ModelConfig config = LoadConfig(model);
  std::vector<SearchPart> parts = SearchParts({Plan::Parse("q=int8/token")}, config, 32);
  EXPECT_THAT(Call([&] { CountStoredBits(model, config, parts); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("got a site without stored bytes")));
}

}  // namespace
}  // namespace tare::search_costs_test
