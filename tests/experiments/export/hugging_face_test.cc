// SPDX-License-Identifier: Apache-2.0
// The exported folder computes the same as the quantized file: bit for bit if the source is in f32, within its type's
// rounding for each value if it is in 16 bits.
#include "experiments/export/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/model.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"

namespace tare::hugging_face_test {
namespace {

TEST(Export, TheFolderIsTheSameModel) {
  const TemporaryFolder folder;
  for (const char* golden : {"llama-mha", "diffllama-mha"}) {
    Quantize({GoldenFolder(golden), Plan::Parse("weights=int4/group16"), folder / "q.h5"}, {});
    ExportDequantized(folder / "q.h5", GoldenFolder(golden), folder / golden);
    Model file(folder / "q.h5"), exported(folder / golden);
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{1, 9, 30, 4, 4, 17});
    EXPECT_EQ(LogitsOf(file, batch, {}), LogitsOf(exported, batch, {})) << golden;
    EXPECT_EQ(GetFile(folder.path() / golden / "config.json"), GetFile(GoldenFolder(golden) / "config.json"));
  }
}

// llama-gqa is stored in BF16.
TEST(Export, SixteenBitsStaySixteenBits) {
  const TemporaryFolder folder;
  const std::filesystem::path source = GoldenFolder("llama-gqa");
  Quantize({source, Plan::Parse("weights=int8/group16"), folder / "q.h5"}, {});
  const ExportSummary summary = ExportDequantized(folder / "q.h5", source, folder / "m");
  const CheckpointFiles before(source), after(folder / "m");
  EXPECT_EQ(summary.bytes, before.total_bytes());
  const QuantizedCheckpoint codes(folder / "q.h5");
  EXPECT_EQ(WrittenText(summary), Formatted("{} tensors in BF16, {} of them rounded to nearest", before.names().size(),
                                            codes.matrices().size()));
  const QuantizedMatrix& m = codes.matrices().at("model.layers.1.mlp.down_proj.weight");
  std::vector<float> row(static_cast<size_t>(m.in));
  DequantizeRow(m, 3, row.data());
  const EditedCheckpoint exported(folder / "m");
  const auto& tensor = exported.tensors.at("model.layers.1.mlp.down_proj.weight");
  ASSERT_EQ(tensor.dtype, DType::kBF16);
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_EQ(tensor.Value(3 * row.size() + i), FloatFromBf16(Bf16FromFloat(row[i])));
}

// The largest of F16 is 65504: a code times its scale may be beyond it, or in what is below its normal numbers.
TEST(Export, ATensorThatItsTypeCannotHoldIsF32) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-gqa"));
  for (auto& [name, tensor] : checkpoint.tensors) {
    for (size_t i = 0; i < tensor.bytes.size() / 2; ++i) tensor.SetBits(i, F16FromFloat(tensor.Value(i)));
    tensor.dtype = DType::kF16;
  }
  checkpoint.Write(folder / "h");
  Quantize({folder / "h", Plan::Parse("weights=int4/channel"), folder / "q.h5"}, {});
  EditedCheckpoint small(folder / "h");
  auto& weight = small.tensors.at("model.layers.0.self_attn.q_proj.weight");
  for (size_t i = 0; i < weight.bytes.size() / 2; ++i) weight.SetBits(i, F16FromFloat(weight.Value(i) * 0x1p-20f));
  small.Write(folder / "s");
  EXPECT_EQ(ExportDequantized(folder / "q.h5", folder / "h", folder / "a").too_wide, 0);
  Quantize({folder / "s", Plan::Parse("weights=int4/channel"), folder / "r.h5"}, {});
  const ExportSummary summary = ExportDequantized(folder / "r.h5", folder / "s", folder / "b");
  EXPECT_EQ(summary.too_wide, 1);
  EXPECT_THAT(WrittenText(summary),
              testing::EndsWith("; 1 in F32, 1 of them with values that the source's type cannot hold"));
  EXPECT_EQ(CheckpointFiles(folder / "b").Find("model.layers.0.self_attn.q_proj.weight")->dtype, DType::kF32);
}

// An equivalent model's tensors are wider than the source's, too.
TEST(Export, EveryFileOfTheTokenizerGoesWithIt) {
  const TemporaryFolder folder;
  EditedCheckpoint(GoldenFolder("llama-gqa")).Write(folder / "m");
  for (const char* name : kTokenizerFiles) PutFile(folder / "m" / name, Formatted("{{\"{}\": 1}}", name));
  Quantize({.model = folder / "m", .plan = {}, .out = folder / "r.h5", .method = ParseMethod("hadamard")}, {});
  Quantize({folder / "r.h5", Plan::Parse("weights=int8/channel"), folder / "q.h5"}, {});
  const ExportSummary summary = ExportDequantized(folder / "q.h5", folder / "m", folder / "out");
  for (const char* name : kTokenizerFiles)
    EXPECT_EQ(GetFile(folder / "out" / name), GetFile(folder / "m" / name)) << name;
  EXPECT_EQ(GetFile(folder / "out" / "tokenizer.json"), R"({"tokenizer.json": 1})");
  EXPECT_EQ(summary.tensors.at(DType::kBF16), CheckpointFiles(folder / "m").names().size());
}

TEST(JoinedRows, TensorsStandBelowEachOther) {
  const float a[]{1, 2, 3, 4}, b[]{5, 6};
  const TensorView parts[]{{"a", DType::kF32, {2, 2}, std::as_bytes(std::span(a))},
                           {"b", DType::kF32, {1, 2}, std::as_bytes(std::span(b))}};
  AlignedBuffer<std::byte> memory;
  const TensorView whole = JoinedTensor({.name = "ab", .parts = {}}, parts, memory);
  EXPECT_EQ(whole.name, "ab");
  EXPECT_EQ(whole.shape, (std::vector<int64_t>{3, 2}));
  std::vector<float> values(6);
  std::memcpy(values.data(), whole.bytes.data(), whole.bytes.size());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(JoinedRows, RowsOfCodesAreThoseOfTheParts) {
  for (const char* name : {"int4", "int4+zero", "int8+min", "mxfp4", "nvfp4"}) {
    const Format format = *ParseMatrixFormat(name);
    const int64_t group = Info(format).block > 0 ? Info(format).block : 16;
    const QuantizedMatrixBuffer a = RoundedNormal(format, 3, 32, group, 1), b = RoundedNormal(format, 5, 32, group, 2);
    const QuantizedMatrix* const parts[]{&a.view(), &b.view()};
    const std::optional<QuantizedMatrixBuffer> joined = JoinedMatrix(parts);
    ASSERT_TRUE(joined) << name;
    EXPECT_EQ(joined->view().out, 8);
    std::vector<float> row(32), expected(32);
    for (int64_t r = 0; r < 8; ++r) {
      DequantizeRow(joined->view(), r, row.data());
      DequantizeRow(r < 3 ? a.view() : b.view(), r < 3 ? r : r - 3, expected.data());
      EXPECT_EQ(row, expected) << name << " " << r;
    }
  }
}

TEST(JoinedRows, OthersDoNotJoin) {
  const QuantizedMatrixBuffer a = RandomQuantized(Format::kInt4, 2, 32, 16, 1);
  for (const QuantizedMatrixBuffer& other :
       {RandomQuantized(Format::kInt8, 2, 32, 16, 2), RandomQuantized(Format::kInt4, 2, 32, 8, 2),
        RandomQuantized(Format::kInt4, 2, 16, 16, 2)}) {
    const QuantizedMatrix* const parts[]{&a.view(), &other.view()};
    EXPECT_FALSE(JoinedMatrix(parts));
  }
}

}  // namespace
}  // namespace tare::hugging_face_test
