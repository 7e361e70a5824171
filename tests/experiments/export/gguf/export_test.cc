// SPDX-License-Identifier: Apache-2.0
// Models that llama.cpp's converter wrote become its tensors again, byte for byte; models in Hugging Face layout
// compute from the written file what they compute from the folder. What a GGUF file cannot hold is refused by name.
#include "experiments/export/gguf/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/export/hugging_face.h"
#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "quant/format/pack.h"
#include "quant/interchange/gguf/blocks.h"
#include "quant/interchange/gguf/container.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::gguf_export_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Read {
  explicit Read(const std::filesystem::path& path)
      : file(path), content(gguf::Parse(file.bytes(), path.filename().string())) {}
  const gguf::Tensor* Find(std::string_view name) const {
    const auto found = std::ranges::find(content.tensors, name, &gguf::Tensor::name);
    return found == content.tensors.end() ? nullptr : &*found;
  }
  MappedFile file;
  gguf::Content content;
};

std::filesystem::path Theirs(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / (name + ".gguf");
}

class GgufExport : public testing::Test {
 protected:
  GgufSummary To(const std::string& type, const std::filesystem::path& model) {
    return ConvertToGguf(model, type, "1.2.3", folder_ / "m.gguf");
  }
  std::vector<float> Logits(const std::filesystem::path& path, const TokenBatch& batch) {
    Model model(path);
    return LogitsOf(model, batch);
  }
  void Refuses(const std::filesystem::path& model, const std::string& why, const std::string& type = "F32") {
    EXPECT_THAT(Call([&] { To(type, model); }), ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "m.gguf"));
  }
  TemporaryFolder folder_;
};

float AsF16(float value) { return FloatFromF16(F16FromFloat(value)); }

// Our codes are equal to the blocks' codes, and the blocks' scales and minima are ours in F16.
void ExpectSameCodes(const QuantizedMatrix& ours, const ForeignMatrix& theirs) {
  const auto in = static_cast<size_t>(ours.in), blocks = in / 32;
  std::vector<float> a(in), b(in), scales(blocks), minima(blocks);
  for (int64_t row = 0; row < ours.out; ++row) {
    Unpack<float>(ours.format, {ours.codes + static_cast<size_t>(row) * ours.RowBytes(), ours.RowBytes()}, a);
    theirs.Integers(row, {.codes = b.data(), .scales = scales.data(), .zeros = nullptr, .minima = minima.data()});
    ASSERT_EQ(a, b) << theirs.scheme() << " " << row;
    for (size_t i = 0; i < blocks; ++i) {
      const auto group = static_cast<int64_t>(i) * 32 / ours.group;
      ASSERT_EQ(scales[i], AsF16(ours.ScaleOf(row, group)));
      if (!HasOffset(ours.format)) continue;
      const float least =
          ours.minima != nullptr ? ours.MinimumOf(row, group) : -ours.ZeroOf(row, group) * ours.ScaleOf(row, group);
      ASSERT_EQ(minima[i], AsF16(least));
    }
  }
}

// gemma's norms are w + 1 in f32 there and here, less 1 when read: with these weights the same bits.
TEST_F(GgufExport, WhatTheirConverterWroteIsWrittenAgain) {
  for (const char* name : {"llama", "llama-linear", "llama-yarn", "mixtral", "qwen2", "qwen3", "qwen3moe", "olmo2",
                           "olmo3", "gemma3", "smollm3", "granite", "phi3", "gpt-oss"}) {
    const std::filesystem::path theirs = Theirs(name);
    To("BF16", theirs);
    const Read expected(theirs), written(folder_ / "m.gguf");
    EXPECT_EQ(written.content.tensors.size(), expected.content.tensors.size()) << name;
    for (const gguf::Tensor& tensor : expected.content.tensors) {
      const gguf::Tensor* const ours = written.Find(tensor.name);
      ASSERT_NE(ours, nullptr) << name << " " << tensor.name;
      EXPECT_EQ(ours->type, tensor.type) << name << " " << tensor.name;
      EXPECT_EQ(ours->shape, tensor.shape) << name << " " << tensor.name;
      if (tensor.name == "rope_freqs.weight") continue;  // below
      EXPECT_TRUE(std::ranges::equal(ours->bytes, tensor.bytes)) << name << " " << tensor.name;
    }
    const auto batch = [] {
      TokenBatch tokens;
      tokens.Add(0, std::vector<int32_t>{1, 9, 30, 4, 4, 17, 90, 2, 33, 8});
      return tokens;
    }();
    EXPECT_EQ(Logits(folder_ / "m.gguf", batch), Logits(theirs, batch)) << name;
  }
}

TEST_F(GgufExport, FoldersComputeTheSame) {
  for (const char* golden : {"llama-mha", "llama-gqa", "llama-old-config", "olmo2", "granite", "phi3", "mixtral"}) {
    const GgufSummary summary = To("F32", GoldenFolder(golden));
    EXPECT_EQ(summary.relative_error, 0) << golden;
    const TokenBatch batch = GoldenBatch(golden);
    EXPECT_EQ(Logits(folder_ / "m.gguf", batch), Logits(GoldenFolder(golden), batch)) << golden;
  }
}

// The scale of a block of values below 2^-17 rounds to no F16, and the values to none; BF16 has them.
TEST_F(GgufExport, BlocksThatF16CannotHoldAreCounted) {
  EditedCheckpoint tiny(GoldenFolder("llama-mha"));
  auto& up = tiny.tensors.at("model.layers.1.mlp.up_proj.weight");
  const auto rows = static_cast<size_t>(up.shape[0]), in = static_cast<size_t>(up.shape[1]);
  up = {DType::kF32, up.shape, std::vector<std::byte>(4 * rows * in)};
  for (size_t i = 0; i < rows * in; ++i) up.SetBits(i, std::bit_cast<uint32_t>(i % 2 == 0 ? 0x1p-27f : -0x1p-28f));
  tiny.Write(folder_ / "tiny");
  for (const auto& [type, lost] : {std::pair{"Q8_0", true}, {"F16", true}, {"BF16", false}, {"F32", false}})
    EXPECT_EQ(To(type, folder_ / "tiny").lost_blocks, lost ? static_cast<int64_t>(rows * ((in + 31) / 32)) : 0) << type;
  EXPECT_EQ(To("Q4_0", GoldenFolder("llama-mha")).lost_blocks, 0);
}

// A block of MXFP4 holds what a block of MXFP4 held, whichever scale its largest value asks for.
TEST_F(GgufExport, ExpertsInMxfp4StayAsTheyAre) {
  EditedCheckpoint oss(GoldenFolder("gpt-oss-mxfp4"));
  oss.config["rope_parameters"]["beta_fast"] = 32;  // the only one that a file can hold
  oss.Write(folder_ / "oss");
  To("MXFP4", folder_ / "oss");
  const Read written(folder_ / "m.gguf"), expected(Theirs("gpt-oss-mxfp4"));
  for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.2.ffn_down_exps.weight"}) {
    const gguf::Tensor &ours = *written.Find(name), &theirs = *expected.Find(name);
    EXPECT_EQ(ours.shape, theirs.shape);
    const int64_t blocks = std::ssize(theirs.bytes) / theirs.type->bytes;
    std::vector<float> a(static_cast<size_t>(32 * blocks)), b(a.size());
    gguf::DequantizeBlocks(ours.type->type, ours.bytes.data(), blocks, a.data());
    gguf::DequantizeBlocks(theirs.type->type, theirs.bytes.data(), blocks, b.data());
    EXPECT_EQ(a, b) << name;
  }
}

// Each expert's codes, one after another.
TEST_F(GgufExport, CodesOfExpertsAreWrittenAsTheyAre) {
  Quantize({GoldenFolder("mixtral"), Plan::Parse("experts.down.w=int4/group32"), folder_ / "e.h5"}, {});
  const GgufSummary summary = To("Q4_0", folder_ / "e.h5");
  EXPECT_GT(summary.scales, 0);
  const QuantizedCheckpoint ours(folder_ / "e.h5");
  const Checkpoint written(folder_ / "m.gguf");
  int experts = 0;
  for (const auto& [name, matrix] : ours.matrices()) {
    ExpectSameCodes(matrix, *written.FindForeign(name));
    ++experts;
  }
  EXPECT_GT(experts, 2);
}

// llama.cpp has no olmo2 and no gpt-oss without a head of its own.
TEST_F(GgufExport, TiedHeadsAreWrittenWhereTheyMustBe) {
  EditedCheckpoint olmo(GoldenFolder("olmo2"));
  olmo.config["tie_word_embeddings"] = true;
  olmo.tensors.erase("lm_head.weight");
  olmo.Write(folder_ / "tied");
  To("F32", folder_ / "tied");
  const Read written(folder_ / "m.gguf");
  ASSERT_NE(written.Find("output.weight"), nullptr);
  EXPECT_TRUE(std::ranges::equal(written.Find("output.weight")->bytes, written.Find("token_embd.weight")->bytes));
  const TokenBatch batch = GoldenBatch("olmo2");
  EXPECT_EQ(Logits(folder_ / "m.gguf", batch), Logits(folder_ / "tied", batch));
}

// Positions that nothing scales, YaRN with a factor of cosines of its own: read back as they were.
TEST_F(GgufExport, PositionsOfGptOssAreReadBack) {
  EditedCheckpoint oss(GoldenFolder("gpt-oss"));
  oss.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1000.0}};
  oss.Write(folder_ / "plain");
  To("F32", folder_ / "plain");
  const TokenBatch batch = GoldenBatch("gpt-oss");
  EXPECT_EQ(Logits(folder_ / "m.gguf", batch), Logits(folder_ / "plain", batch));
  oss.config["rope_parameters"] = {{"rope_type", "yarn"},
                                   {"rope_theta", 1000.0},
                                   {"factor", 8.0},
                                   {"attention_factor", 1.75},
                                   {"original_max_position_embeddings", 16}};
  oss.Write(folder_ / "yarn");
  To("F32", folder_ / "yarn");
  EXPECT_NEAR(LoadConfig(folder_ / "m.gguf").rotary.attention_factor, 1.75, 1e-6);  // a ratio in f32
}

TEST_F(GgufExport, MetadataSaysWhatWasDone) {
  const GgufSummary summary = To("Q8_0", GoldenFolder("llama-gqa"));
  EXPECT_FALSE(summary.has_tokenizer);
  const Read written(folder_ / "m.gguf");
  EXPECT_EQ(written.content.metadata.Text("general.name"), "llama-gqa");
  EXPECT_EQ(written.content.metadata.Unsigned("general.file_type", 99), 7u);
  EXPECT_EQ(written.content.metadata.Text("general.description"), "llama-gqa, written in Q8_0 by Tare 1.2.3");
  EXPECT_EQ(written.content.metadata.Text("tare.source_sha256"), Checkpoint(GoldenFolder("llama-gqa")).ContentHash());
  EXPECT_EQ(written.content.metadata.Text("tokenizer.ggml.model"), "no_vocab");
  EXPECT_EQ(written.Find("blk.0.attn_norm.weight")->type->name, "F32");
}

// Rounding keeps each value within half a step, and the steps of the types are what they are: 4 bits about 16 times
// those of 8.
TEST_F(GgufExport, MatricesAreRounded) {
  const double eight = To("Q8_0", Theirs("llama")).relative_error;
  const GgufSummary four = To("Q4_0", Theirs("llama"));
  EXPECT_GT(eight, 0.001);
  EXPECT_LT(eight, 0.01);
  EXPECT_GT(four.relative_error, 8 * eight);
  EXPECT_LT(four.relative_error, 32 * eight);
  const Read written(folder_ / "m.gguf");
  EXPECT_EQ(written.Find("token_embd.weight")->type->name, "Q8_0");
  EXPECT_EQ(written.Find("blk.1.ffn_down.weight")->type->name, "Q4_0");
}

TEST_F(GgufExport, RowsThatAreNoWholeBlocksAreF16) {
  EXPECT_THAT(To("Q4_1", Theirs("llama")).short_rows, testing::IsEmpty());
  const GgufSummary pair = To("Q4_1", TARE_SOURCE_DIR "/experiments/pair/novels-standard");
  EXPECT_THAT(pair.short_rows, testing::SizeIs(4));
  EXPECT_EQ(pair.short_rows.begin()->first, "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(pair.short_rows.begin()->second, "F16");
  EXPECT_EQ(Read(folder_ / "m.gguf").Find("blk.0.ffn_down.weight")->type->name, "F16");
  EXPECT_TRUE(pair.has_tokenizer);
}

// Matrices have the K type where rows are multiples of 256, else the type that takes its place.
TEST_F(GgufExport, KTypesHaveOthersInTheirPlace) {
  const std::filesystem::path model = Theirs("llama-q4_k_m");
  for (const auto& [type, instead, file_type] :
       {std::tuple{"Q4_K", "Q5_0", 14u}, {"Q5_K", "Q5_1", 16u}, {"Q6_K", "Q8_0", 18u}}) {
    const GgufSummary summary = To(type, model);
    const Read written(folder_ / "m.gguf");
    EXPECT_EQ(written.content.metadata.Unsigned("general.file_type", 99), file_type);
    ASSERT_FALSE(summary.short_rows.empty());
    int of_type = 0;
    for (const gguf::Tensor& tensor : written.content.tensors) {
      if (tensor.shape.size() != 2 || tensor.name == "token_embd.weight" || tensor.name == "output.weight") continue;
      EXPECT_EQ(tensor.type->name, tensor.shape[1] % 256 == 0 ? type : instead) << tensor.name;
      of_type += tensor.type->name == type ? 1 : 0;
    }
    EXPECT_GT(of_type, 0);
    for (const auto& [name, got] : summary.short_rows) EXPECT_EQ(got, instead) << name;
  }
}

// MXFP4 holds the values of mxfp4 whatever their rule for ties and scales; nothing else but F32 holds scales in f32.
TEST_F(GgufExport, CodesAreHeldExactlyOrRefused) {
  const std::filesystem::path codes = folder_ / "q.h5";
  Quantize({Theirs("llama"), Plan::Parse("weights=mxfp4:rceil"), codes}, {});
  EXPECT_THAT(ConvertToGguf(codes, "MXFP4", "1", folder_ / "mx.gguf").types, testing::Contains(testing::Key("MXFP4")));
  const QuantizedCheckpoint ours(codes);
  const Checkpoint written(folder_ / "mx.gguf");
  for (const auto& [name, matrix] : ours.matrices()) {
    const ForeignMatrix* const theirs = written.FindForeign(name);
    ASSERT_NE(theirs, nullptr) << name;
    std::vector<float> a(static_cast<size_t>(matrix.in)), b(a.size());
    for (int64_t row = 0; row < matrix.out; ++row) {
      DequantizeRow(matrix, row, a.data());
      theirs->Row(row, b.data());
      EXPECT_EQ(a, b) << name << " " << row;
    }
  }
  Quantize({GoldenFolder("llama-mha"), Plan::Parse("weights=int4/group16"), folder_ / "i.h5"}, {});
  Refuses(folder_ / "i.h5", "got codes whose values Q4_0 cannot hold, and would round a second time", "Q4_0");
  const TokenBatch batch = GoldenBatch("llama-mha");
  To("F32", folder_ / "i.h5");
  EXPECT_EQ(Logits(folder_ / "m.gguf", batch), Logits(folder_ / "i.h5", batch));
  EXPECT_EQ(Read(folder_ / "m.gguf").content.metadata.Text("tare.plan"), "weights=int4/group16");
}

TEST_F(GgufExport, IntegerCodesAreWrittenAsTheyAre) {
  const std::filesystem::path codes = folder_ / "i.h5";
  for (const auto& [plan, type] : {std::pair{"int4/group32", "Q4_0"},
                                   {"int4/group32+full", "Q4_0"},
                                   {"int8/channel", "Q8_0"},
                                   {"int4/group32+min", "Q4_1"},
                                   {"int4/group32+zero", "Q4_1"}}) {
    Quantize({Theirs("llama"), Plan::Parse(Formatted("weights={}", plan)), codes}, {});
    const GgufSummary summary = To(type, codes);
    const QuantizedCheckpoint ours(codes);
    int64_t scales = 0;
    for (const auto& [name, matrix] : ours.matrices()) scales += matrix.out * matrix.Groups();
    EXPECT_EQ(summary.scales, scales) << plan;
    EXPECT_GT(summary.rounded_scales, scales / 2) << plan;
    const Checkpoint written(folder_ / "m.gguf");
    for (const auto& [name, matrix] : ours.matrices()) ExpectSameCodes(matrix, *written.FindForeign(name));
  }
}

// What was rotated computes the same.
TEST_F(GgufExport, EquivalentWeightsAreWeights) {
  Quantize({.model = GoldenFolder("llama-gqa"), .plan = {}, .out = folder_ / "r.h5", .method = ParseMethod("hadamard")},
           {});
  To("F32", folder_ / "r.h5");
  const TokenBatch batch = GoldenBatch("llama-gqa");
  EXPECT_EQ(Logits(folder_ / "m.gguf", batch), Logits(folder_ / "r.h5", batch));
}

TEST_F(GgufExport, WhatAFileCannotHoldIsRefused) {
  Refuses(GoldenFolder("diffllama-mha"),
          "to gguf: got a diffllama model, expected one of llama.cpp's architectures that Tare knows: mistral, "
          "mixtral, llama, qwen2, ");
  Refuses(GoldenFolder("mistral"), "got layers that see a window of keys, expected layers that see all");
  Refuses(GoldenFolder("qwen3-gate-head"), "got gates of attention's output, expected none");
  Refuses(GoldenFolder("gemma3"), "got layer 1 without a window, expected every sixth layer to see all keys");
  ConvertLayout(Theirs("gemma3"), "gemma3_text", folder_ / "six");
  EditedCheckpoint gemma(folder_ / "six");
  gemma.config["query_pre_attn_scalar"] = 20;
  gemma.Write(folder_ / "g");
  Refuses(folder_ / "g", "got attention logits times 0.2236068, expected 0.25, of query_pre_attn_scalar 16");
  EditedCheckpoint large(GoldenFolder("llama-gqa"));
  large.tensors.at("model.layers.0.mlp.up_proj.weight").SetBits(0, Bf16FromFloat(1e6f));
  large.Write(folder_ / "l");
  Refuses(folder_ / "l", "'model.layers.0.mlp.up_proj.weight': got values beyond F16's, expected smaller ones", "F16");
  EXPECT_NO_THROW(To("BF16", folder_ / "l"));
}

}  // namespace
}  // namespace tare::gguf_export_test
