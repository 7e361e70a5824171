// SPDX-License-Identifier: Apache-2.0
// Bit for bit what AutoRound's own layers make of its packings, and what is refused.
#include "quant/interchange/folders/quantization_config.h"

#include "tests/support/foreign_folder.h"

namespace tare::auto_round_test {
namespace {

using testing::IsEmpty;

TEST(AutoRound, DequantizesAsItsOwnLayersDo) {
  for (const char* name : {"auto-round", "auto-round-gptq", "auto-round-awq", "auto-round-far"}) {
    ExpectSameBits(ForeignFolder(name), name);
    EXPECT_THAT(Checkpoint(ForeignFolder(name)).notes(), IsEmpty()) << name;
  }
  EXPECT_EQ(Checkpoint(ForeignFolder("auto-round")).FindForeign("a.int8.weight")->scheme(), "AutoRound int8/group64");
  EXPECT_EQ(Checkpoint(ForeignFolder("auto-round-awq")).FindForeign("a.weight")->scheme(), "AutoRound int4/group32");
}

// Symmetric in 2, 3, 4 and 8 bits, stored less one: each width proves it against the name.
TEST(AutoRound, SymmetricZeroPointsProveTheirConvention) {
  for (const char* module : {"a.int2", "a.int3", "a.int4", "a.int8"}) {
    EditedCheckpoint checkpoint(ForeignFolder("auto-round-gptq"));
    std::erase_if(checkpoint.tensors, [&](const auto& t) { return !t.first.starts_with(std::string(module) + "."); });
    SchemeOf(checkpoint)["packing_format"] = "auto_round";
    const TemporaryFolder folder;
    checkpoint.Write(folder / "m");
    const std::string name = std::string(module) + ".weight";
    const Checkpoint named_wrong(folder / "m"), right(ForeignFolder("auto-round-gptq"));
    EXPECT_EQ(RowsOf(*named_wrong.FindForeign(name)), RowsOf(*right.FindForeign(name))) << module;
    EXPECT_THAT(named_wrong.notes(), testing::ElementsAre(testing::HasSubstr("less one, as their values show")));
  }
}

TEST(AutoRound, KeysAreHonouredOrRefused) {
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint(ForeignFolder("auto-round"));
    SchemeOf(checkpoint)[key] = value;
    ExpectRefused(checkpoint, std::string("quantization_config: ") + key, why);
  };
  refused("packing_format", "auto_round:llm_compressor", "others are not supported");
  refused("data_type", "mx_fp", "expected \"int\"");
  refused("act_bits", 8, "expected 16 or 32");
  refused("rotation_config", {{"block", 32}}, "it is not supported");
  refused("static_kv_dtype", "fp8", "it is not supported");
  refused("surprise", true, "expected no such key");
  refused("extra_config", {{"a.int8", {{"surprise", 1}}}}, "expected no such key");
  refused("extra_config", {{"a.int8", {{"act_bits", 4}}}}, "expected 16");
}

// As version 0.15 writes whether or not attention is quantized.
TEST(AutoRound, GranularityOfNothingIsIgnored) {
  EditedCheckpoint checkpoint(ForeignFolder("auto-round"));
  SchemeOf(checkpoint)["static_attention_granularity"] = "tensor";
  SchemeOf(checkpoint)["static_kv_granularity"] = "tensor";
  SchemeOf(checkpoint)["static_kv_dtype"] = nullptr;
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  EXPECT_EQ(Checkpoint(folder / "m").FindForeign("a.int8.weight")->scheme(), "AutoRound int8/group64");
}

TEST(AutoRound, OverridesMustFitTheTensors) {
  EditedCheckpoint checkpoint(ForeignFolder("auto-round"));
  SchemeOf(checkpoint)["extra_config"].erase("a.int8");
  ExpectRefused(checkpoint, "tensor 'a.int8.", "AutoRound int4/group32 in quantization_config");
  SchemeOf(checkpoint)["extra_config"]["a.int8"] = {{"bits", 16}};
  ExpectRefused(checkpoint, "tensor 'a.int8.qweight': got codes", "leaves this module as it is");
}

}  // namespace
}  // namespace tare::auto_round_test
