// SPDX-License-Identifier: Apache-2.0
// Bit for bit what bitsandbytes' default backend makes of its layers, and what is refused.
#include "quant/interchange/folders/quantization_config.h"

#include "tests/support/foreign_folder.h"

namespace tare::bitsandbytes_test {
namespace {

EditedCheckpoint Golden() { return EditedCheckpoint(ForeignFolder("bitsandbytes-nf4")); }

constexpr const char* kState = "a.nested.weight.quant_state.bitsandbytes__nf4";

void SetState(EditedCheckpoint& checkpoint, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  checkpoint.tensors[kState] = {DType::kU8, {std::ssize(bytes)}, {bytes.begin(), bytes.end()}};
}

TEST(BitsAndBytes, DequantizesAsItsBackendDoes) {
  ExpectSameBits(ForeignFolder("bitsandbytes-nf4"), "bitsandbytes-nf4");
  ExpectSameBits(ForeignFolder("bitsandbytes-fp4"), "bitsandbytes-fp4");
  const Checkpoint checkpoint(ForeignFolder("bitsandbytes-nf4"));
  EXPECT_EQ(checkpoint.FindForeign("a.plain.weight")->scheme(), "bitsandbytes nf4/block64");
}

TEST(BitsAndBytes, KeysAreHonouredOrRefused) {
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint = Golden();
    SchemeOf(checkpoint)[key] = value;
    ExpectRefused(checkpoint, std::string("quantization_config: ") + key, why);
  };
  refused("load_in_8bit", true, "expected false");
  refused("load_in_4bit", false, "expected true");
  refused("bnb_4bit_quant_type", "int4", "expected \"nf4\" or \"fp4\"");
  refused("bnb_4bit_quant_storage", "bfloat16", "expected \"uint8\"");
  refused("surprise", 1, "expected no such key");
  EditedCheckpoint checkpoint = Golden();
  SchemeOf(checkpoint)["bnb_4bit_quant_type"] = "fp4";
  ExpectRefused(checkpoint, "tensor 'a.nested.weight.absmax': left over", "");
}

TEST(BitsAndBytes, EveryMissingPartIsNamed) {
  const EditedCheckpoint whole = Golden();
  for (const auto& [name, tensor] : whole.tensors) {
    EditedCheckpoint without = whole;
    without.tensors.erase(name);
    ExpectRefused(without, "tensor 'a.", name.contains("quant_state") ? "left over" : "missing");
  }
}

TEST(BitsAndBytes, StatesMustFit) {
  const auto refused = [](const std::string& state, const char* why) {
    EditedCheckpoint checkpoint = Golden();
    SetState(checkpoint, state);
    ExpectRefused(checkpoint, kState, why);
  };
  const std::string rest = R"("quant_type": "nf4", "nested_blocksize": 256, "nested_offset": 0.5)";
  refused("{", "");
  refused("[1]", "expected an object");
  refused("{\"blocksize\": 64, " + rest + "}", "shape: got none, expected two positive integers");
  refused("{\"shape\": [32, -64], \"blocksize\": 64, " + rest + "}", "expected two positive integers");
  refused("{\"shape\": [32, 9223372036854775807], \"blocksize\": 64, " + rest + "}", "two positive integers");
  refused("{\"shape\": [32, 64], \"blocksize\": 0, " + rest + "}", "blocksize: got 0");
  refused("{\"shape\": [32, 64], \"quant_type\": \"fp4\"}", "quant_type: got \"fp4\"");
  refused("{\"shape\": [32, 64], \"blocksize\": 64, \"surprise\": 1, " + rest + "}", "expected no such key");
  refused("{\"shape\": [32, 64], \"blocksize\": 64, \"nested_blocksize\": 256}", "nested_offset: expected a number");
  EditedCheckpoint checkpoint = Golden();
  SetState(checkpoint, "{\"shape\": [33, 64], \"blocksize\": 64, " + rest + "}");
  ExpectRefused(checkpoint, "tensor 'a.nested.weight': got 1024 bytes, expected half of [33, 64]", "");
  SetState(checkpoint, "{\"shape\": [32, 64], \"blocksize\": 32, " + rest + "}");
  ExpectRefused(checkpoint, "a.nested.weight.absmax': got shape [32], expected [64]", "");
  checkpoint = Golden();
  checkpoint.tensors.at("a.plain.weight.absmax").SetBits(3, 0x7fc00000);
  ExpectRefused(checkpoint, "tensor 'a.plain.weight.absmax', index 3: got nan", "expected finite numbers");
}

}  // namespace
}  // namespace tare::bitsandbytes_test
