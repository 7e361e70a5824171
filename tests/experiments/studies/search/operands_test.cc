// SPDX-License-Identifier: Apache-2.0
// Operands counted one by one, by walking through the products of a window.
#include "experiments/studies/search/operands.h"

#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "experiments/model/config/family.h"
#include "tests/support/golden.h"

namespace tare::operands_test {
namespace {

// Of q and k (and of v and the maps), the mean over the window's queries.
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

}  // namespace
}  // namespace tare::operands_test
