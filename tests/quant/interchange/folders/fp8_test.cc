// SPDX-License-Identifier: Apache-2.0
// Bit for bit what transformers' dequantization makes of codes and scales in f32, and what is refused.
#include "tests/support/foreign_folder.h"

namespace tare::fp8_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Fp8, DequantizesAsTransformersDoes) {
  for (const char* name : {"fp8-blocks", "fp8-static", "fp8-static-inv"}) {
    ExpectSameBits(ForeignFolder(name), name);
    EXPECT_NE(Checkpoint(ForeignFolder(name)).Find("a.plain.weight"), nullptr) << name;
  }
}

TEST(Fp8, SchemesSayWhatSharesAScale) {
  EXPECT_EQ(Checkpoint(ForeignFolder("fp8-blocks")).FindForeign("a.ragged.weight")->scheme(), "fp8 fp8/block16x32");
  EXPECT_EQ(Checkpoint(ForeignFolder("fp8-static")).FindForeign("a.q.weight")->scheme(), "fp8 fp8/tensor");
}

TEST(Fp8, InputsAndCachesAreNotes) {
  for (const char* name : {"fp8-static", "fp8-static-inv"}) {
    const Checkpoint checkpoint(ForeignFolder(name));
    EXPECT_THAT(checkpoint.notes(),
                ElementsAre(HasSubstr("--plan k.in=fp8e4m3/tensor+static,q.in=fp8e4m3/tensor+static"),
                            HasSubstr("static scales are the file's"), HasSubstr("--cache cache_k=int8/token")));
    EXPECT_TRUE(checkpoint.FindForeign("a.q.weight")->input_scale().has_value());
    EXPECT_FALSE(checkpoint.Has("a.k.k_scale"));
  }
}

// Without the key, one scale is the tensor's, and more are of transformers' blocks of 128 by 128.
TEST(Fp8, BlocksWithoutTheKey) {
  EditedCheckpoint checkpoint(ForeignFolder("fp8-static"));
  SchemeOf(checkpoint)["weight_block_size"] = nullptr;
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  ExpectSameBits(folder / "m", "fp8-static");
  checkpoint = EditedCheckpoint(ForeignFolder("fp8-blocks"));
  SchemeOf(checkpoint).erase("weight_block_size");
  ExpectRefused(checkpoint, "tensor 'a.column.weight_scale_inv': got shape [3, 1], expected [1, 1]", "block128x128");
  SchemeOf(checkpoint)["weight_block_size"] = nullptr;
  ExpectRefused(checkpoint, "tensor 'a.column.weight_scale_inv': got shape [3, 1], expected [1]", "fp8/tensor");
}

TEST(Fp8, KeysAndPartsAreHonouredOrRefused) {
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint(ForeignFolder("fp8-blocks"));
    SchemeOf(checkpoint)[key] = value;
    ExpectRefused(checkpoint, "", why);
  };
  refused("fmt", "e5m2", "fmt: got \"e5m2\", expected \"e4m3\"");
  refused("activation_scheme", "other", "expected \"dynamic\" or \"static\"");
  refused("weight_block_size", {16}, "expected rows and columns, two positive integers");
  refused("weight_block_size", {16, 16},
          "got shape [1, 1], expected [1, 2]: a.power.weight [16, 32] is fp8 fp8/block16x16");
  refused("surprise", 1, "expected no such key");
  refused("modules_to_not_convert", {"a.column"}, "leaves this module as it is");
  EditedCheckpoint checkpoint(ForeignFolder("fp8-blocks"));
  checkpoint.tensors.erase("a.whole.weight_scale_inv");
  ExpectRefused(checkpoint, "tensor 'a.whole.weight_scale_inv': missing", "");
  checkpoint = EditedCheckpoint(ForeignFolder("fp8-blocks"));
  checkpoint.tensors.at("a.whole.weight").dtype = DType::kF8E4M3Fnuz;
  ExpectRefused(checkpoint, "tensor 'a.whole.weight': got dtype F8_E4M3FNUZ", "expected F8_E4M3");
  checkpoint = EditedCheckpoint(ForeignFolder("fp8-static"));
  checkpoint.tensors["a.q.weight_scale_inv"] = checkpoint.tensors.at("a.q.weight_scale");
  ExpectRefused(checkpoint, "tensor 'a.k.weight_scale_inv': missing", "");
}

}  // namespace
}  // namespace tare::fp8_test
