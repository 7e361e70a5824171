// SPDX-License-Identifier: Apache-2.0
// The window's spellings; parity_test.cc compares the forward pass with transformers.
#include "experiments/model/families/table.h"

#include "tests/support/family_config.h"

namespace tare::mistral_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;

TEST(MistralTest, AMissingWindowIsTransformersDefaultAndNullIsNone) {
  EXPECT_THAT(Parsed(SmallConfig("mistral")).windows, AllOf(SizeIs(4), Each(4096)));
  EXPECT_THAT(Parsed(With(SmallConfig("mistral"), "sliding_window", 9)).windows, AllOf(SizeIs(4), Each(9)));
  EXPECT_THAT(Parsed(With(SmallConfig("mistral"), "sliding_window", nullptr)).windows, IsEmpty());
  ExpectConfigRefused(With(SmallConfig("mistral"), "sliding_window", 0), "sliding_window", "got 0");
  ExpectConfigRefused(With(SmallConfig("mistral"), "sliding_window", "9"), "sliding_window", "expected an integer");
}

TEST(MistralTest, MinistralsWindowsAreByLayer) {
  const nlohmann::json types = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"},
                       ministral = With(SmallConfig("ministral"), "sliding_window", 9);
  EXPECT_THAT(Parsed(With(ministral, "layer_types", types)).windows, testing::ElementsAre(0, 9, 0, 9));
  EXPECT_THAT(Parsed(ministral).windows, AllOf(SizeIs(4), Each(9)));
  EXPECT_THAT(Parsed(With(ministral, "sliding_window", nullptr)).windows, IsEmpty());
  ExpectConfigRefused(With(With(ministral, "sliding_window", nullptr), "layer_types", types), "layer_types",
                      "no sliding_window is in use");
  ExpectConfigRefused(With(SmallConfig("mistral"), "layer_types", types), "layer_types", "not supported");
}

TEST(MistralTest, HasNoBiasesWhateverTheKeysSay) {
  EXPECT_FALSE(Parsed(With(SmallConfig("mistral"), "attention_bias", true)).attention_bias);
}

}  // namespace
}  // namespace tare::mistral_test
