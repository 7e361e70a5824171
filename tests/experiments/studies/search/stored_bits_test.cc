// SPDX-License-Identifier: Apache-2.0
// Counted bits against files that tare quantize writes.
#include "experiments/studies/search/stored_bits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "experiments/quantize/quantize.h"
#include "quant/base/error.h"
#include "quant/checkpoint/checkpoint.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::stored_bits_test {
namespace {

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
}  // namespace tare::stored_bits_test
