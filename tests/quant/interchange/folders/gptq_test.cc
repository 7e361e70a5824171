// SPDX-License-Identifier: Apache-2.0
// Bit for bit what GPTQModel's own functions and AutoAWQ's own unpacking make of their layers, and what is refused.
#include "quant/interchange/folders/gptq.h"

#include "tests/support/foreign_folder.h"

namespace tare::folders_gptq_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

EditedCheckpoint Golden() { return EditedCheckpoint(ForeignFolder("gptq")); }

TEST(Gptq, DequantizesAsGptqModelDoes) {
  ExpectSameBits(ForeignFolder("gptq"), "gptq");
  ExpectSameBits(ForeignFolder("gptq-v2"), "gptq-v2");
}

TEST(Gptq, SchemesSayBitsAndGroups) {
  const Checkpoint checkpoint(ForeignFolder("gptq"));
  EXPECT_EQ(checkpoint.FindForeign("a.int4.weight")->scheme(), "GPTQ int4/group32");
  EXPECT_EQ(checkpoint.FindForeign("a.int8.weight")->scheme(), "GPTQ int8/channel");
  EXPECT_EQ(checkpoint.FindForeign("a.int3.weight")->scheme(), "GPTQ int3/group16");
}

// Without g_idx, neighbours share a scale.
TEST(Gptq, GroupsOfNeighboursNeedNoIndex) {
  EditedCheckpoint checkpoint = Golden();
  SchemeOf(checkpoint)["desc_act"] = false;
  checkpoint.tensors.erase("a.int8.g_idx");  // of one group
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  ExpectSameBits(folder / "m", "gptq");
  SchemeOf(checkpoint)["desc_act"] = true;
  ExpectRefused(checkpoint, "tensor 'a.int8.g_idx': missing", "desc_act: true");
}

TEST(Gptq, KeysAreHonouredOrRefused) {
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint = Golden();
    SchemeOf(checkpoint)[key] = value;
    ExpectRefused(checkpoint, std::string("quantization_config: ") + key, why);
  };
  refused("bits", 5, "got 5, expected 2, 3, 4 or 8");
  refused("bits", 16, "expected an integer from 2 to 8");
  refused("bits", "4", "got \"4\", expected an integer");
  refused("bits", nullptr, "missing");
  refused("group_size", 0, "expected -1 or a positive number");
  refused("group_size", -2, "expected an integer from -1");
  refused("sym", 1, "expected true or false");
  refused("checkpoint_format", "gptq_p", "expected \"gptq\" or \"gptq_v2\"");
  refused("checkpoint_format", "marlin", "others are not supported");
  refused("is_marlin_format", true, "expected false");
  refused("pack_dtype", "int16", "expected \"int32\"");
  refused("adapter", {{"rank", 8}}, "it is not supported");
  refused("rotation", "hadamard", "it is not supported");
  refused("surprise", 7, "got 7, expected no such key");
  refused("dynamic", 3, "expected an object of patterns");
  refused("dynamic", {{"+:(", {{"bits", 8}}}}, "missing closing parenthesis");
  refused("dynamic", {{"a", {{"bits", 7}}}}, "expected 2, 3, 4 or 8");
  refused("dynamic", {{"a", {{"surprise", 7}}}}, "expected no such key");
}

TEST(Gptq, ACodeOfAModuleThatIsLeftAloneIsNamed) {
  EditedCheckpoint checkpoint = Golden();
  SchemeOf(checkpoint)["dynamic"]["-:.*int4"] = nlohmann::json::object();
  ExpectRefused(checkpoint, "tensor 'a.int4.qweight': got codes", "leaves this module as it is");
}

TEST(Gptq, PartsMustFit) {
  const auto refused = [](const char* tensor, const std::function<void(EditedCheckpoint::Tensor&)>& edit,
                          const char* why) {
    EditedCheckpoint checkpoint = Golden();
    edit(checkpoint.tensors.at(tensor));
    ExpectRefused(checkpoint, std::string("tensor '") + tensor + "'", why);
  };
  const auto shape = [](std::vector<int64_t> dimensions) {
    return [dimensions](EditedCheckpoint::Tensor& t) {
      t.shape = dimensions;
      t.bytes.resize(static_cast<size_t>(*ByteCount(t.dtype, dimensions)));
    };
  };
  refused("a.int4.qweight", shape({8}), "expected a matrix");
  refused("a.int4.qweight", shape({0, 32}), "at least one element");
  refused("a.int4.scales", shape({3, 32}), "expected [2, 32]: a.int4.weight [32, 64] is GPTQ int4/group32");
  refused("a.int4.qzeros", shape({2, 8}), "expected [2, 4]");
  refused("a.int3.qweight", shape({5, 32}), "expected a multiple of 3");
  refused("a.int4.g_idx", shape({63}), "expected [64]");
  refused("a.int4.g_idx", [](auto& t) { t.SetBits(7, 2); }, "index 7: got group 2, expected 0 to 1");
  refused("a.int4.g_idx", [](auto& t) { t.SetBits(7, 0xffffffff); }, "index 7: got group -1");
  refused("a.int4.scales", [](auto& t) { t.dtype = DType::kI16; }, "got dtype I16, expected F16 or BF16 or F32");
  EditedCheckpoint checkpoint = Golden();
  checkpoint.tensors.at("a.int4.scales").SetBits(9, 0x7e00);
  ExpectRefused(checkpoint, "tensor 'a.int4.weight': 'a.int4.scales', index 9", "got a scale of nan");
}

TEST(Gptq, EveryMissingPartIsNamed) {
  for (const char* part : {"qweight", "qzeros", "scales", "g_idx"}) {
    EditedCheckpoint checkpoint = Golden();
    checkpoint.tensors.erase(std::string("a.int4.") + part);
    ExpectRefused(checkpoint, "tensor 'a.int4.", part == std::string("qweight") ? "left over" : "missing");
  }
}

std::vector<std::string> NotesOf(const char* golden, const char* format) {
  EditedCheckpoint checkpoint(ForeignFolder(golden));
  SchemeOf(checkpoint)["checkpoint_format"] = format;
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  return Checkpoint(folder / "m").notes();
}

// A word of zero points 0 and others: less one, it borrows, and the sum of words gives it back.
TEST(GptqZeroPoints, AWordLessOneBorrows) {
  const uint32_t zeros = 0x30f08001, stored = zeros - 0x11111111;
  PackedCodes packed{.words = reinterpret_cast<const std::byte*>(&stored), .bits = 4, .along_rows = true};
  const PackedCodes codes = ZeroCodes(packed, StoredZeros::kLessOne);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(codes.At(0, i), (zeros >> (4 * i)) & 15) << i;
  EXPECT_NE(packed.At(0, 2) + 1, codes.At(0, 2));  // field by field it would be another
}

// Both conventions make weights of any codes, so what the file says holds, also where the mean of code - zero point is
// far from 0: 2, 3, 4 and 8 bits that GPTQModel packed.
TEST(GptqZeroPoints, AsymmetricOnesAreWhatTheFileSays) {
  for (const char* name : {"gptq-far", "gptq-v2-far"}) {
    ExpectSameBits(ForeignFolder(name), name);
    EXPECT_THAT(Checkpoint(ForeignFolder(name)).notes(), IsEmpty()) << name;
  }
}

// Releases 1 to 6 subtract other constants of 3 bits, which only they add again.
TEST(GptqZeroPoints, ThreeBitsOfOldReleasesAreRefused) {
  EditedCheckpoint checkpoint = Golden();
  SchemeOf(checkpoint)["meta"]["quantizer"] = {"gptqmodel:5.6.2"};
  ExpectRefused(checkpoint, "tensor 'a.int3.qzeros': got zero points of 3 bits", "GPTQModel before 7");
  SchemeOf(checkpoint)["meta"]["quantizer"] = "gptqmodel:2.0.0";
  ExpectRefused(checkpoint, "tensor 'a.int3.qzeros': got zero points of 3 bits", "");
  const TemporaryFolder folder;
  for (const auto& [name, quantizer] : {std::pair("gptq", "gptqmodel:7.0.0"), {"gptq-v2", "gptqmodel:5.6.2"}}) {
    checkpoint = EditedCheckpoint(ForeignFolder(name));
    SchemeOf(checkpoint)["meta"]["quantizer"] = {quantizer};
    checkpoint.Write(folder / name);
    ExpectSameBits(folder / name, name);
  }
}

TEST(GptqZeroPoints, AsymmetricOnesOfAWrongNameAreAStepOff) {
  EditedCheckpoint checkpoint(ForeignFolder("gptq-v2-far"));
  SchemeOf(checkpoint)["checkpoint_format"] = "gptq";
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  const Checkpoint wrong(folder / "m"), right(ForeignFolder("gptq-v2-far"));
  EXPECT_THAT(wrong.notes(), IsEmpty());
  const float scale = checkpoint.tensors.at("a.int4.scales").Value(0);
  EXPECT_NEAR(RowsOf(*right.FindForeign("a.int4.weight"))[5] - RowsOf(*wrong.FindForeign("a.int4.weight"))[5], scale,
              1e-6);
}

TEST(GptqZeroPoints, SymmetricOnesProveIt) {
  EXPECT_THAT(NotesOf("llama-gptq-named-wrong", "gptq"), ElementsAre(HasSubstr("as they are, as their values show")));
  EXPECT_THAT(NotesOf("llama-gptq-named-wrong", "gptq_v2"), IsEmpty());
}

TEST(GptqZeroPoints, SymmetricMustBeOneValue) {
  EditedCheckpoint checkpoint(ForeignFolder("llama-gptq-named-wrong"));
  auto& zeros = checkpoint.tensors.at("model.layers.0.mlp.up_proj.qzeros");
  zeros.SetBits(1, 0x88888878);
  ExpectRefused(checkpoint, "up_proj.weight': zero point of row 9, group 0 is stored as 7, another as 8", "sym: true");
  zeros.SetBits(0, 0x88888885);
  ExpectRefused(checkpoint, "zero point 0 is stored as 5, expected 7 or 8", "sym: true");
  for (size_t i = 0; i < zeros.bytes.size() / 4; ++i) zeros.SetBits(i, 0x77777777);
  ExpectRefused(checkpoint, "stored less one, those of", "expected one convention");
}

TEST(Awq, DequantizesAsAutoAwqDoes) { ExpectSameBits(ForeignFolder("awq"), "awq"); }

TEST(Awq, KeysAreHonouredOrRefused) {
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint(ForeignFolder("awq"));
    SchemeOf(checkpoint)[key] = value;
    ExpectRefused(checkpoint, std::string("quantization_config: ") + key, why);
  };
  refused("bits", 3, "expected 4");
  refused("bits", nullptr, "missing");
  refused("group_size", 0, "expected -1 or a positive number");
  refused("version", "gemv", "expected \"gemm\"");
  refused("backend", "llm-awq", "expected \"autoawq\"");
  refused("modules_to_not_convert", 3, "expected a list of strings");
  refused("surprise", 1.5, "expected no such key");
}

// Names are whole parts between points: 'mlp.gate' is the router, and not 'mlp.gate_proj'.
TEST(Awq, ModulesThatStayAreNamedByWholeParts) {
  const auto notes = [](const std::string& module, const char* left) {
    EditedCheckpoint checkpoint(ForeignFolder("awq"));
    for (const char* part : {"qweight", "qzeros", "scales"}) {
      checkpoint.tensors[module + "." + part] = checkpoint.tensors.at(std::string("a.") + part);
      checkpoint.tensors.erase(std::string("a.") + part);
    }
    SchemeOf(checkpoint)["modules_to_not_convert"] = {left};
    const TemporaryFolder folder;
    checkpoint.Write(folder / "m");
    return RowsOf(*Checkpoint(folder / "m").FindForeign(module + ".weight"));
  };
  const std::vector<float> right = RowsOf(*Checkpoint(ForeignFolder("awq")).FindForeign("a.weight"));
  for (const char* left : {"mlp.gate", "gate", "layers.1", "lm_head", "model.layers.1", "down_proj"})
    EXPECT_EQ(notes("model.layers.12.mlp.gate_proj", left), right) << left;
  for (const char* left : {"mlp.gate_proj", "gate_proj", "layers.12", "model", "model.layers.12.mlp.gate_proj", "mlp"})
    EXPECT_THROW(notes("model.layers.12.mlp.gate_proj", left), Error) << left;
}

TEST(Awq, PartsMustFit) {
  EditedCheckpoint checkpoint(ForeignFolder("awq"));
  SchemeOf(checkpoint)["group_size"] = 16;
  ExpectRefused(checkpoint, "tensor 'a.qzeros': got shape [2, 4], expected [4, 4]", "AWQ int4/group16");
  SchemeOf(checkpoint)["group_size"] = 48;
  ExpectRefused(checkpoint, "tensor 'a.qweight': got 64 rows", "a multiple of group_size 48");
  SchemeOf(checkpoint)["group_size"] = 32;
  SchemeOf(checkpoint)["zero_point"] = false;
  ExpectRefused(checkpoint, "tensor 'a.weight': zero point of row 0, group 0 is", "zero_point: false");
  SchemeOf(checkpoint)["zero_point"] = true;
  SchemeOf(checkpoint)["modules_to_not_convert"] = {"a"};
  ExpectRefused(checkpoint, "tensor 'a.qweight': got codes", "leaves this module as it is");
  SchemeOf(checkpoint).erase("modules_to_not_convert");
  checkpoint.tensors["a.g_idx"] = checkpoint.tensors.at("a.qzeros");
  ExpectRefused(checkpoint, "tensor 'a.g_idx': left over", "");
}

}  // namespace
}  // namespace tare::folders_gptq_test
