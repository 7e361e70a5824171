// SPDX-License-Identifier: Apache-2.0
// The record's options and refusals; parity_test.cc compares the forward pass with golden data.
#include "experiments/model/config/read_config.h"
#include "experiments/model/families/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/families/differential.h"
#include "experiments/model/model.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::diff_v1_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

nlohmann::json Config() { return EditedCheckpoint(GoldenFolder("diff-v1-gqa")).config; }
ModelConfig With(const char* key, const nlohmann::json& value) {
  nlohmann::json json = Config();
  json[key] = value;
  return ParseConfig(json.dump(), "c.json");
}

// 8 maps over 4 key heads: head 3 has the maps 6 and 7, and the second group's keys 2 and 3 and both of its values.
TEST(DiffV1Test, NeighboursAreTheMapsOfAHead) {
  const OutputHead head = HeadTable(ParseConfig(Config().dump(), "c")).at(3);
  EXPECT_EQ(head.q1, 6);
  EXPECT_EQ(head.q2, 7);
  EXPECT_EQ(head.k1, 2);
  EXPECT_EQ(head.k2, 3);
  EXPECT_EQ(head.v, (std::array{2, 3}));
  EXPECT_EQ(HeadTable(With("head_pairing", "halves")).at(3).q2, 7);
  EXPECT_EQ(HeadTable(With("head_pairing", "halves")).at(3).q1, 3);
}

TEST(DiffV1Test, ReadsItsOptions) {
  const ModelConfig plain = ParseConfig(Config().dump(), "c");
  EXPECT_EQ(plain.rotary.layout, RotaryConfig::Layout::kInterleaved);
  EXPECT_EQ(With("rotary_layout", "half-split").rotary.layout, RotaryConfig::Layout::kHalfSplit);
  EXPECT_EQ(plain.head_norm_eps, 1e-5f);
  EXPECT_FALSE(plain.lambda_init.has_value());
  EXPECT_EQ(With("lambda_init", 0.8).lambda_init, 0.8f);
}

TEST(DiffV1Test, OneLambdaInitForAllLayers) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("diff-v1-mha"));
  checkpoint.config["lambda_init"] = 0.8;
  checkpoint.Write(folder / "m");
  const Model model(folder / "m"), by_depth(GoldenFolder("diff-v1-mha"));
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(model.layers()[layer].lambda_init, 0.8f);
    EXPECT_NEAR(model.layers()[layer].lambda[0] - by_depth.layers()[layer].lambda[0], 0.8f - LambdaInit(layer), 1e-6);
  }
}

// A checkpoint without the weight says so, or the tensor is missed.
TEST(DiffV1Test, AHeadNormWithoutWeight) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("diff-v1-mha"));
  std::erase_if(checkpoint.tensors, [](const auto& tensor) { return tensor.first.contains("subln"); });
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Call([&] { Model model(folder / "m"); }),
              ThrowsMessage<Error>(HasSubstr("'model.layers.0.self_attn.subln.weight': missing; expected shape [16]")));
  checkpoint.config["head_norm_weight"] = false;
  checkpoint.Write(folder / "n");
  EXPECT_EQ(Model(folder / "n").layers()[1].vectors.count(kHeadNorm), 0u);
}

TEST(DiffV1Test, ImpossibleValuesAreRefusedByKey) {
  const auto refuses = [](const char* key, const nlohmann::json& value, const char* why) {
    EXPECT_THAT(Call([&] { With(key, value); }), ThrowsMessage<Error>(HasSubstr(why))) << key;
  };
  refuses("rotary_layout", "spiral", "c.json: rotary_layout: got 'spiral', expected half-split or interleaved");
  refuses("head_pairing", "thirds", "c.json: head_pairing: got 'thirds', expected adjacent or halves");
  refuses("num_attention_heads", 7, "c.json: num_attention_heads: got 7");
  refuses("num_key_value_heads", 1, "c.json: num_key_value_heads: got 1, expected an even number");
  refuses("lambda_init", -1, "c.json: lambda_init: got -1, expected a positive number");
}

}  // namespace
}  // namespace tare::diff_v1_test
