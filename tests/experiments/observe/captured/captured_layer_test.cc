// SPDX-License-Identifier: Apache-2.0
// What is refused is in attribution_test.cc.
#include "experiments/observe/captured/captured_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/captured_model.h"

namespace tare::captured_layer_test {
namespace {

// Captured q, k and v give the maps of the model that they are of: of one lambda in six digits, else to the bit.
TEST(CapturedLayer, ShowsTheModelsMaps) {
  for (const char* name : {"llama-gqa", "diffllama-gqa"}) {
    const CapturedModel model(name, {{1, 5, 9, 2, 7, 3, 8}});
    Recorder shown;
    ForCapturedLayers(model.input, {}, [&](CapturedLayer& attention, const std::vector<int>& layers) {
      EXPECT_EQ(attention.layer(), 0);
      ASSERT_EQ(attention.sequences().size(), 1u);
      SimulatedAttention exact(Plan(), AttentionSites(attention.problem(), layers));
      attention.Show(attention.sequences().front(), exact, shown);
    });
    size_t maps = 0;
    for (const auto& [key, of] : model.seen.sites) {
      if (key.layer != 0 || !IsAttentionMap(key.site)) continue;
      ++maps;
      ASSERT_TRUE(shown.sites.contains(key)) << Name(key.site);
      for (const auto& [place, row] : of.rows) {
        if (key.site == Site::kDifference) {
          EXPECT_THAT(shown.sites[key].rows[place], testing::Pointwise(testing::FloatNear(1e-5f), row));
        } else {
          EXPECT_EQ(shown.sites[key].rows[place], row);
        }
      }
    }
    EXPECT_GT(maps, 4u);
  }
}

// The rows of two sequences lie one after another: the second is shown by itself.
TEST(CapturedLayer, ShowsOneSequence) {
  const TemporaryFolder folder;
  PutArrays(folder / "c.safetensors",
            {{"q.3", SomeArray({2, 1, 5, 4})}, {"k.3", SomeArray({2, 1, 5, 4})}, {"v.3", SomeArray({2, 1, 5, 4})}});
  const CapturedInput input = LoadCaptured({folder / "c.safetensors"}, {});
  ForCapturedLayers(input, {}, [&](CapturedLayer& attention, const std::vector<int>& layers) {
    SimulatedAttention exact(Plan(), AttentionSites(attention.problem(), layers));
    Recorder shown;
    attention.Show(attention.sequences()[1], exact, shown);
    const Seen& q = shown.sites.at({Site::kQ, 3, 0, 1});
    ASSERT_EQ(q.rows.size(), 5u);
    const std::vector<float> all = SomeArray({2, 1, 5, 4}).values;
    EXPECT_EQ(q.rows.at({1, 4}), Row(all.end() - 4, all.end()));
  });
}

}  // namespace
}  // namespace tare::captured_layer_test
