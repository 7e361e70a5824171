// SPDX-License-Identifier: Apache-2.0
// Which layers have a window and which projections a bias; parity_test.cc compares the forward pass with transformers.
#include "experiments/model/config/read_config.h"
#include "experiments/model/families/table.h"

#include "experiments/model/decoder.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"

namespace tare::qwen2_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Qwen2Test, WindowsApplyOnlyIfTheConfigSaysSo) {
  const nlohmann::json unused = With(With(SmallConfig("qwen2"), "sliding_window", 5), "max_window_layers", 2);
  EXPECT_THAT(Parsed(unused).windows, IsEmpty());
  const nlohmann::json used = With(unused, "use_sliding_window", true);
  EXPECT_THAT(Parsed(used).windows, ElementsAre(0, 0, 5, 5));
  EXPECT_THAT(Parsed(With(used, "max_window_layers", 4)).windows, IsEmpty());
  EXPECT_THAT(Parsed(With(With(SmallConfig("qwen2"), "use_sliding_window", true), "max_window_layers", 3)).windows,
              ElementsAre(0, 0, 0, 4096));
  const nlohmann::json types = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(Parsed(With(used, "layer_types", types)).windows, ElementsAre(5, 0, 0, 5));
  ExpectConfigRefused(With(unused, "layer_types", types), "layer_types", "no sliding_window is in use");
  ExpectConfigRefused(With(used, "layer_types", {"full_attention"}), "layer_types", "num_hidden_layers 4");
  ExpectConfigRefused(With(used, "layer_types", nlohmann::json(4, "chunked_attention")), "layer_types",
                      "'chunked_attention' in layer 0");
  ExpectConfigRefused(With(used, "use_mrope", true), "use_mrope", "not supported");
}

TEST(Qwen2Test, QueriesKeysAndValuesHaveBiases) {
  const Projector projector(Math::kF32);
  Weights weights(GoldenFolder("qwen2"), projector);
  const LayerWeights layer = kQwen2.load(weights, LoadConfig(GoldenFolder("qwen2")), 1);
  for (const LinearWeights* linear : {&layer.q, &layer.k, &layer.v}) EXPECT_FALSE(linear->bias().empty());
  for (const LinearWeights* linear : {&layer.o, &layer.gate, &layer.up, &layer.down})
    EXPECT_TRUE(linear->bias().empty());
  EXPECT_EQ(layer.mask.kind, Mask::Kind::kWindow);
  EXPECT_EQ(layer.mask.window, 7);
}

}  // namespace
}  // namespace tare::qwen2_test
