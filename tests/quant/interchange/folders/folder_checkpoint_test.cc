// SPDX-License-Identifier: Apache-2.0
// What a checkpoint shows of a folder that another tool quantized.
#include "tests/support/foreign_folder.h"

namespace tare::folder_checkpoint_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(FolderCheckpoint, MatricesTakeThePlaceOfTheirParts) {
  const Checkpoint checkpoint(ForeignFolder("awq"));
  EXPECT_THAT(checkpoint.names(), ElementsAre("a.weight"));
  EXPECT_EQ(checkpoint.Find("a.qweight"), nullptr);
  EXPECT_EQ(checkpoint.Find("a.weight"), nullptr);
  EXPECT_TRUE(checkpoint.Has("a.weight"));
  ASSERT_NE(checkpoint.FindForeign("a.weight"), nullptr);
  EXPECT_EQ(checkpoint.FindForeign("a.weight")->scheme(), "AWQ int4/group32");
  EXPECT_EQ(checkpoint.total_bytes(), 32 * 64 / 2 + 2 * 32 / 2 + 2 * 32 * 2);  // codes, zero points, scales
  EXPECT_NO_THROW(checkpoint.Release("a.weight"));
  EXPECT_THROW(checkpoint.Release("a.qweight"), Error);
  EXPECT_THAT(checkpoint.notes(), IsEmpty());
}

TEST(FolderCheckpoint, PlainTensorsStay) {
  const Checkpoint checkpoint(ForeignFolder("gptq"));
  ASSERT_NE(checkpoint.Find("a.plain.weight"), nullptr);
  EXPECT_EQ(checkpoint.FindForeign("a.plain.weight"), nullptr);
  EXPECT_EQ(checkpoint.schemes().size(), 4u);
}

TEST(FolderCheckpoint, TheModelsOwnConfigHasNoScheme) {
  EXPECT_THAT(*CheckpointText(ForeignFolder("llama-awq"), "config.json"), HasSubstr("quantization_config"));
  EXPECT_THAT(*ModelConfigText(ForeignFolder("llama-awq")), Not(HasSubstr("quantization_config")));
}

// Python writes numbers that are no JSON: they are strings then, and what is in a string stays.
TEST(FolderCheckpoint, InfinitiesOfAConfigAreStrings) {
  const TemporaryFolder folder;
  const std::string text = R"({"a": [0.0, Infinity], "b": -Infinity, "c": NaN, "d": "NaN \" Infinity\\", "e": "x"})";
  PutFile(folder / "config.json", text);
  PutFile(folder / "tokenizer.json", text);
  const auto json = nlohmann::json::parse(*CheckpointText(folder.path(), "config.json"));
  EXPECT_EQ(json,
            nlohmann::json(
                {{"a", {0.0, "Infinity"}}, {"b", "-Infinity"}, {"c", "NaN"}, {"d", "NaN \" Infinity\\"}, {"e", "x"}}));
  EXPECT_EQ(CheckpointText(folder.path(), "tokenizer.json"), text);
  for (const char* wrong : {R"({"a": xInfinity})", R"({"a": Infinity1})", R"({"a": --Infinity})", R"({"a": nan})"}) {
    PutFile(folder / "config.json", wrong);
    EXPECT_FALSE(nlohmann::json::accept(*CheckpointText(folder.path(), "config.json"))) << wrong;
  }
}

// A weight and its scale in another shard than its zero points.
TEST(FolderCheckpoint, PartsMayBeInAnyShard) {
  const EditedCheckpoint whole(ForeignFolder("awq"));
  const TemporaryFolder folder;
  nlohmann::json map;
  for (const auto& [name, t] : whole.tensors) {
    const std::string shard = name + ".safetensors";
    WriteSafetensors(folder / shard, {{name, t.dtype, t.shape, t.bytes}});
    map[name] = shard;
  }
  PutFile(folder / "config.json", whole.config.dump());
  PutFile(folder / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  ExpectSameBits(folder.path(), "awq");
}

// Tensors need no alignment.
TEST(FolderCheckpoint, MisalignedTensorsAreReadAsWell) {
  for (const char* name : {"awq", "gptq", "compressed-packed-0.18", "compressed-bytes"}) {
    const TemporaryFolder folder;
    EditedCheckpoint(ForeignFolder(name)).WriteMisaligned(folder / "m");
    ExpectSameBits(folder / "m", name);
  }
}

}  // namespace
}  // namespace tare::folder_checkpoint_test
