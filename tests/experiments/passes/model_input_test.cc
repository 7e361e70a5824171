// SPDX-License-Identifier: Apache-2.0
// A vision tower's input is images, which are shown to it; every other model's is ids or text. Sequences are the same
// with and without a model.
#include "experiments/passes/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::model_input_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ModelInputTest, ImagesOfAVisionTower) {
  const std::filesystem::path folder = GoldenFolder("diffclip-vision"), file = folder / "expected.safetensors";
  Model tower(folder);
  const TokenInput input = LoadModelInput(file, tower);
  ASSERT_NE(tower.images(), nullptr);
  ASSERT_EQ(std::ssize(input.sequences), tower.images()->size());
  EXPECT_EQ(std::ssize(input.sequences[0]), 1 + tower.config().Patches());
  const TokenInput alone = IdsOf(Images(file, tower.config()), file);
  EXPECT_EQ(alone.sequences, input.sequences);
  EXPECT_EQ(alone.sha256, input.sha256);
}

TEST(ModelInputTest, IdsOfEveryOtherModel) {
  const std::filesystem::path folder = GoldenFolder("clip-text");
  Model tower(folder);
  const TokenInput input = LoadModelInput(folder / "expected.safetensors", tower);
  EXPECT_EQ(tower.images(), nullptr);
  EXPECT_EQ(std::ssize(input.sequences[0]), 12);
  EXPECT_EQ(LoadTokenInput(folder / "expected.safetensors", folder, tower.config().vocabulary).sequences,
            input.sequences);
}

TEST(ModelInputTest, AFileWithoutTheModelsInputIsRefused) {
  Model vision(GoldenFolder("clip-vision"));
  const std::filesystem::path ids = GoldenFolder("clip-text") / "expected.safetensors";
  EXPECT_THAT(Call([&] { LoadModelInput(ids, vision); }), ThrowsMessage<Error>(HasSubstr("images: missing")));
}

TEST(Shard, IsParsed) {
  EXPECT_EQ(ParseShard("--shard", "2/5").index, 2u);
  EXPECT_EQ(ParseShard("--shard", "2/5").count, 5u);
  for (const char* text : {"", "1", "1/", "/2", "2/2", "0/0", "-1/2", "1/2x", "1 /2", "0x0/2"})
    EXPECT_THAT([&] { ParseShard("--cut", text); }, ThrowsMessage<Error>(HasSubstr("--cut: got '"))) << text;
}

}  // namespace
}  // namespace tare::model_input_test
