// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config/config.h"

#include <gtest/gtest.h>

namespace tare::config_test {
namespace {

TEST(ModelConfig, KindsSayWhoseKeysALayerReads) {
  ModelConfig config;
  EXPECT_EQ(config.KeysLayer(3), 3);
  EXPECT_EQ(KindText(config, 3), "full");
  using enum LayerKind;
  config.kinds = {kAttention, kMamba, kSharedAttention, kMemoryUnit};
  config.windows = {7, 0, 0, 0};
  const int keys[]{0, -1, 0, -1};
  const char* const texts[]{"window", "mamba", "shared", "memory unit"};
  for (int layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(config.KeysLayer(layer), keys[layer]);
    EXPECT_EQ(KindText(config, layer), texts[layer]);
  }
}

}  // namespace
}  // namespace tare::config_test
