// SPDX-License-Identifier: Apache-2.0
// The same codes and scales under the names of three tools are the same matrix; the tools' own values are in
// compressed_tensors_test.cc and floats_test.cc.
//
// Bit for bit what compressed-tensors' own functions make of its formats, and what is refused.
#include "quant/interchange/folders/compressed_tensors.h"

#include <bit>

#include "quant/base/message.h"
#include "quant/interchange/folders/quantization_config.h"
#include "tests/support/foreign_folder.h"

namespace tare::compressed_tensors_test {
namespace {

// Module a.f8block of compressed-bytes alone, its scale under another name.
EditedCheckpoint Renamed(const std::string& scale, const nlohmann::json& settings) {
  EditedCheckpoint checkpoint(ForeignFolder("compressed-bytes"));
  std::erase_if(checkpoint.tensors, [](const auto& t) { return !t.first.starts_with("a.f8block."); });
  auto part = checkpoint.tensors.extract("a.f8block.weight_scale");
  part.key() = "a.f8block." + scale;
  checkpoint.tensors.insert(std::move(part));
  SchemeOf(checkpoint) = settings;
  return checkpoint;
}

TEST(ScaledModule, ToolsDifferInNames) {
  const std::vector<float> right =
      RowsOf(*Checkpoint(ForeignFolder("compressed-bytes")).FindForeign("a.f8block.weight"));
  const TemporaryFolder folder;
  for (const char* scale : {"weight_scale", "weight_scale_inv"}) {
    Renamed(scale, {{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}}).Write(folder / scale);
    EXPECT_EQ(RowsOf(*Checkpoint(folder / scale).FindForeign("a.f8block.weight")), right) << scale;
  }
}

TEST(ScaledModule, APartOfAnotherToolIsLeftOver) {
  for (const char* part : {"weight_scale_2", "weight_global_scale", "bitmask", "output_scale"}) {
    EditedCheckpoint checkpoint = Renamed("weight_scale", {{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}});
    checkpoint.tensors[std::string("a.f8block.") + part] = checkpoint.tensors.at("a.f8block.weight_scale");
    ExpectRefused(checkpoint, std::string("tensor 'a.f8block.") + part + "': left over", "");
  }
}

EditedCheckpoint Golden(const char* name) { return EditedCheckpoint(ForeignFolder(name)); }

TEST(CompressedTensors, DequantizesAsTheLibraryDoes) {
  for (const char* name : {"compressed-packed-0.12", "compressed-packed-0.18", "compressed-bytes"})
    ExpectSameBits(ForeignFolder(name), name);
}

TEST(CompressedTensors, SchemesSayFormatAndGroups) {
  const Checkpoint checkpoint(ForeignFolder("compressed-bytes"));
  const auto scheme = [&](const char* name) { return checkpoint.FindForeign(name)->scheme(); };
  EXPECT_EQ(scheme("a.int8.weight"), "compressed-tensors int8/channel");
  EXPECT_EQ(scheme("a.f8block.weight"), "compressed-tensors fp8/block16x32");
  EXPECT_EQ(scheme("a.nvfp4.weight"), "compressed-tensors nvfp4/group16");
  EXPECT_EQ(scheme("a.mxfp8.weight"), "compressed-tensors mxfp8/group32");
}

// As llm-compressor wrote folders before it compressed the status, and beside a sparsity that leaves nothing out.
TEST(CompressedTensors, FrozenAndDenseFoldersHaveTheSameCodes) {
  EditedCheckpoint checkpoint = Golden("compressed-bytes");
  SchemeOf(checkpoint)["quantization_status"] = "frozen";
  SchemeOf(checkpoint)["sparsity_config"] = {
      {"format", "dense"}, {"global_sparsity", 0.14}, {"sparsity_structure", "unstructured"}};
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  ExpectSameBits(folder / "m", "compressed-bytes");
  SchemeOf(checkpoint)["sparsity_config"].erase("format");
  ExpectRefused(checkpoint, "sparsity_config: format: missing", "");
  checkpoint.tensors.at("a.int8.weight") = {DType::kF32, {32, 64}, std::vector<std::byte>(4 * 32 * 64)};
  SchemeOf(checkpoint).erase("sparsity_config");
  ExpectRefused(checkpoint, "tensor 'a.int8.weight': got dtype F32, expected I8", "");  // frozen, and not compressed
}

// 20 codes of 3 bits are in two words with gaps and without: the version tells.
TEST(CompressedTensors, TheVersionTellsWhereShapesDoNot) {
  EditedCheckpoint checkpoint = Golden("compressed-packed-0.18");
  nlohmann::json groups{{"g", SchemeOf(checkpoint)["config_groups"]["group_int3"]}};
  groups["g"]["targets"] = {"a"};
  groups["g"]["weights"].update({{"strategy", "channel"}, {"group_size", nullptr}, {"symmetric", true}});
  SchemeOf(checkpoint)["config_groups"] = groups;
  checkpoint.tensors.clear();
  checkpoint.tensors["a.weight_packed"] = {DType::kI32, {1, 2}, std::vector<std::byte>(8)};
  checkpoint.tensors.at("a.weight_packed").SetBits(1, 4);  // dense: the third bit of code 11; with gaps: code 10 is 4
  checkpoint.tensors["a.weight_scale"] = {DType::kF32, {1, 1}, std::vector<std::byte>(4)};
  checkpoint.tensors.at("a.weight_scale").SetBits(0, std::bit_cast<uint32_t>(1.0f));
  checkpoint.tensors["a.weight_shape"] = {DType::kI32, {2}, std::vector<std::byte>(8)};
  checkpoint.tensors.at("a.weight_shape").SetBits(0, 1);
  checkpoint.tensors.at("a.weight_shape").SetBits(1, 20);
  const auto code = [&](const char* version, size_t i) {
    SchemeOf(checkpoint)["version"] = version;
    const TemporaryFolder folder;
    checkpoint.Write(folder / "m");
    return RowsOf(*Checkpoint(folder / "m").FindForeign("a.weight"))[i] + 4;
  };
  EXPECT_EQ(code("0.18.0", 11), 2);
  EXPECT_EQ(code("0.18.0", 10), 0);
  EXPECT_EQ(code("0.17.1.a20260101", 10), 4);
  EXPECT_EQ(code("1.0", 11), 2);
  SchemeOf(checkpoint).erase("version");
  ExpectRefused(checkpoint, "quantization_config: version: missing", "20 columns of 3 bits lie in 2 words");
}

TEST(CompressedTensors, PartsMustFit) {
  const auto refused = [](const char* golden, const std::string& tensor,
                          const std::function<void(EditedCheckpoint::Tensor&)>& edit, const char* why) {
    EditedCheckpoint checkpoint = Golden(golden);
    edit(checkpoint.tensors.at(tensor));
    ExpectRefused(checkpoint, "tensor '" + tensor.substr(0, tensor.rfind('.')), why);
  };
  const auto shape = [](std::vector<int64_t> dimensions) {
    return [dimensions](EditedCheckpoint::Tensor& t) {
      t.shape = dimensions;
      t.bytes.resize(static_cast<size_t>(*ByteCount(t.dtype, dimensions)));
    };
  };
  constexpr const char *kPacked = "compressed-packed-0.18", *kBytes = "compressed-bytes";
  refused(kPacked, "a.int4.weight_packed", shape({32, 9}), "expected 8 words in a row");
  refused(kPacked, "a.int4.weight_packed", shape({32}), "expected a matrix");
  refused(kPacked, "a.int4.weight_shape", shape({3}), "expected [2]");
  refused(kPacked, "a.int4.weight_shape", [](auto& t) { t.SetBits(0, 31); }, "got [31, 64], expected 32 rows");
  refused(
      kPacked, "a.int4.weight_shape", [](auto& t) { std::memset(t.bytes.data() + 8, 0x7f, 8); },
      "a positive number of columns");
  refused(
      kPacked, "a.int4.weight_shape", [](auto& t) { std::memset(t.bytes.data() + 8, 0xff, 8); },
      "a positive number of columns");
  refused(kPacked, "a.int4.weight_scale", shape({32, 4}), "expected [32, 2]");
  refused(kPacked, "a.asym4.weight_zero_point", shape({32, 4}), "expected [4, 4]");
  refused(kPacked, "a.asym4.weight_g_idx", shape({32}), "expected [64]");
  refused(kPacked, "a.asym4.weight_g_idx", [](auto& t) { t.SetBits(3, 4); }, "index 3: got group 4, expected 0 to 3");
  refused(kPacked, "a.asym4.weight_g_idx", [](auto& t) { t.SetBits(3, 0xffffffff); }, "columns in group");
  refused(kBytes, "a.int8.weight", [](auto& t) { t.dtype = DType::kU8; }, "got dtype U8, expected I8");
  refused(kBytes, "a.f8channel.weight", [](auto& t) { t.SetBits(5, 0x7f); }, "row 0, column 5: code 127");
  refused(kBytes, "a.f8block.weight_scale", shape({2, 3}), "expected [2, 2]");
  refused(kBytes, "a.f8column.weight_scale", shape({24, 1}), "expected [2, 1]");
  refused(kBytes, "a.nvfp4.weight_global_scale", [](auto& t) { t.SetBits(0, 0); }, "expected one positive number");
  refused(kBytes, "a.nvfp4.weight_scale", [](auto& t) { t.SetBits(9, 0xff); }, "index 9: got a scale of nan");
  refused(kBytes, "a.mxfp4.weight_scale", [](auto& t) { t.SetBits(9, 0xff); }, "index 9: got a scale of nan");
}

TEST(CompressedTensors, EveryMissingPartIsNamed) {
  for (const char* golden : {"compressed-packed-0.18", "compressed-bytes"}) {
    const EditedCheckpoint whole = Golden(golden);
    for (const auto& [name, tensor] : whole.tensors) {
      if (name.find(".input_") != name.npos) continue;
      EditedCheckpoint without = whole;
      without.tensors.erase(name);
      ExpectRefused(without, "tensor '" + name.substr(0, name.rfind('.')), "");
    }
  }
}

TEST(CompressedTensors, CachesAreOfferedAsThePlanTheyMean) {
  EditedCheckpoint checkpoint = Golden("compressed-packed-0.18");
  SchemeOf(checkpoint)["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}};
  checkpoint.tensors["x.self_attn.k_scale"] = {DType::kF32, {1}, std::vector<std::byte>(4)};
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  const Checkpoint files(folder / "m");
  EXPECT_THAT(files.notes(),
              testing::Contains("caches were meant to be rounded as well, to floats of 8 bits; the nearest: --cache "
                                "cache_k=int8/token,cache_v=int8/token"));
  EXPECT_FALSE(files.Has("x.self_attn.k_scale"));
}

// The fewest bits that hold a code, and zero points where codes are not symmetric; floats have none.
TEST(CompressedTensors, CachesOfFewBitsAndWithZeroPointsAreOfferedAsSuch) {
  const auto expect = [](int bits, const char* type, bool symmetric, const std::string& rule) {
    EditedCheckpoint checkpoint = Golden("compressed-packed-0.18");
    SchemeOf(checkpoint)["kv_cache_scheme"] = {
        {"num_bits", bits}, {"type", type}, {"strategy", "tensor"}, {"symmetric", symmetric}};
    const TemporaryFolder folder;
    checkpoint.Write(folder / "m");
    EXPECT_THAT(
        Checkpoint(folder / "m").notes(),
        testing::Contains(Formatted("caches were meant to be rounded as well, to {} of {} bits; the nearest: "
                                    "--cache cache_k={},cache_v={}",
                                    std::string_view(type) == "int" ? "integers" : "floats", bits, rule, rule)));
  };
  expect(1, "int", true, "int2/token");
  expect(2, "int", false, "int2/token+zero");
  expect(3, "int", true, "int3/token");
  expect(4, "int", false, "int4/token+zero");
  expect(5, "int", true, "int6/token");
  expect(6, "int", false, "int6/token+zero");
  expect(8, "int", false, "int8/token+zero");
  expect(16, "int", true, "int8/token");
  expect(4, "float", false, "int4/token");
}

// One positive number; a damaged one is refused.
TEST(CompressedTensors, StaticScalesOfInputsAreTheMatrixs) {
  EditedCheckpoint checkpoint = Golden("compressed-bytes");
  const auto with = [&](float scale) {
    checkpoint.tensors["a.int8.input_scale"] = {DType::kF32, {1}, std::vector<std::byte>(4)};
    std::memcpy(checkpoint.tensors.at("a.int8.input_scale").bytes.data(), &scale, 4);
  };
  with(0.25f);
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  EXPECT_EQ(Checkpoint(folder / "m").FindForeign("a.int8.weight")->input_scale(), 0.25f);
  with(-1.0f);
  ExpectRefused(checkpoint, "tensor 'a.int8.input_scale'", "got -1, expected a positive number");
}

TEST(CompressedTensors, LeftOverPartsAreNamed) {
  for (const char* part : {"weight_zero_point", "output_scale", "k_scale", "bitmask"}) {
    EditedCheckpoint checkpoint = Golden("compressed-packed-0.18");
    checkpoint.tensors[std::string("a.int4.") + part] = checkpoint.tensors.at("a.int4.weight_scale");
    ExpectRefused(checkpoint, std::string("tensor 'a.int4.") + part + "'", "");
  }
}

// Some versions save them; zero is what they must be.
TEST(CompressedTensors, SymmetricWeightsMayHaveZeroPointsOfZero) {
  EditedCheckpoint checkpoint = Golden("compressed-bytes");
  auto& zeros = checkpoint.tensors["a.int8.weight_zero_point"] = {DType::kI8, {32, 1}, std::vector<std::byte>(32)};
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  ExpectSameBits(folder / "m", "compressed-bytes");
  zeros.SetBits(0, 1);
  ExpectRefused(checkpoint, "tensor 'a.int8.weight_zero_point': got a zero point that is not 0", "symmetric");
}

TEST(CompressedTensors, FormatsMustSuitTheirArguments) {
  const auto refused = [](const char* module, const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint = Golden("compressed-bytes");
    SchemeOf(checkpoint)["config_groups"][std::string("group_") + module]["weights"][key] = value;
    ExpectRefused(checkpoint, "", why);
  };
  refused("int8", "type", "float", "int-quantized: got weights that are not integers of at most 8 bits, of 'a.int8'");
  refused("f8channel", "num_bits", 4, "not symmetric floats of 8 bits");
  refused("nvfp4", "group_size", 32, "not floats in groups of 16 columns");
  refused("mxfp8", "group_size", 16, "not floats in groups of 32 columns");
  refused("int8", "dynamic", true, "dynamic or by tokens");
  EditedCheckpoint checkpoint = Golden("compressed-bytes");
  SchemeOf(checkpoint)["config_groups"]["group_int8"]["format"] = "marlin-24";
  ExpectRefused(checkpoint, "format: got 'marlin-24'", "others are not supported");
}

}  // namespace

}  // namespace tare::compressed_tensors_test
