// SPDX-License-Identifier: Apache-2.0
// Which reader a folder gets.
#include "quant/interchange/folders/quantization_config.h"

#include "tests/support/foreign_folder.h"

namespace tare::quantization_config_test {
namespace {

using testing::ElementsAre;

TEST(QuantizationConfig, UnknownMethodsAreNamed) {
  EditedCheckpoint checkpoint(ForeignFolder("awq"));
  SchemeOf(checkpoint)["quant_method"] = "hqq";
  ExpectRefused(checkpoint, "config.json: quantization_config: quant_method: got \"hqq\"", "others are not supported");
  SchemeOf(checkpoint).erase("quant_method");
  ExpectRefused(checkpoint, "quantization_config: quant_method: missing", "");
  checkpoint.config["quantization_config"] = 4;
  ExpectRefused(checkpoint, "quantization_config: got 4", "expected an object");
  checkpoint.config["quantization_config"] = nullptr;
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Checkpoint(folder / "m").names(), ElementsAre("a.qweight", "a.qzeros", "a.scales"));
}

TEST(QuantizationConfig, TheModelsOwnConfigHasNone) {
  EXPECT_EQ(WithoutQuantizationConfig("{\"a\": 1, \"quantization_config\": {}}", "c"), "{\n  \"a\": 1\n}\n");
  EXPECT_EQ(WithoutQuantizationConfig("{\"a\": 1}", "c"), "{\"a\": 1}");
}

}  // namespace
}  // namespace tare::quantization_config_test
