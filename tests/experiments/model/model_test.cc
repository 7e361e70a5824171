// SPDX-License-Identifier: Apache-2.0
// Refused checkpoints and their messages, results that must not depend on the place of tensors or on threads, and bf16
// products. parity_test.cc checks agreement with transformers.
#include "experiments/model/model.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "experiments/model/random_checkpoint.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::model_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kDown = "model.layers.1.mlp.down_proj.weight";

std::vector<float> FolderLogits(const fs::path& folder, const TokenBatch& batch, Math math = Math::kF32) {
  Model model(folder, math);
  return LogitsOf(model, batch);
}

void ExpectModelRefused(const EditedCheckpoint& checkpoint, const std::string& what, const std::string& why) {
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Call([&] { Model model(folder / "m"); }), ThrowsMessage<Error>(AllOf(HasSubstr(what), HasSubstr(why))));
}

TEST(ModelTest, EveryMissingTensorIsNamed) {
  for (const char* name : {"llama-gqa", "diffllama-gqa", "qwen2", "olmo2", "gemma3"}) {
    const EditedCheckpoint whole(GoldenFolder(name));
    for (const auto& [tensor, content] : whole.tensors) {
      EditedCheckpoint without = whole;
      without.tensors.erase(tensor);
      ExpectModelRefused(without, "'" + tensor + "'", "missing");
    }
  }
}

TEST(ModelTest, MisshapenTensorsAreNamed) {
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  std::swap(checkpoint.tensors.at(kDown).shape[0], checkpoint.tensors.at(kDown).shape[1]);
  ExpectModelRefused(checkpoint, kDown, "got shape [112, 64], expected [64, 112] from config.json");
}

TEST(ModelTest, ConfigAndWeightsMustAgree) {
  const EditedCheckpoint whole(GoldenFolder("llama-gqa"));
  const std::pair<const char*, nlohmann::json> changes[] = {{"vocab_size", 132},        {"hidden_size", 64},
                                                            {"intermediate_size", 96},  {"num_hidden_layers", 4},
                                                            {"num_key_value_heads", 3}, {"tie_word_embeddings", false}};
  for (const auto& [key, value] : changes) {
    EditedCheckpoint other = whole;
    other.config[key] = value;
    ExpectModelRefused(other, "tensor '", "expected");
  }
  const std::pair<const char*, nlohmann::json> ignored[] = {{"attention_bias", false}, {"mlp_bias", false}};
  for (const auto& [key, value] : ignored) {
    EditedCheckpoint other = whole;
    other.config[key] = value;
    ExpectModelRefused(other, "tensor '", "not part of the model");
  }
}

TEST(ModelTest, OtherTypesAreNamed) {
  for (const DType dtype : {DType::kI8, DType::kF64}) {
    EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
    EditedCheckpoint::Tensor& tensor = checkpoint.tensors.at(kDown);
    tensor.dtype = dtype;
    tensor.bytes.resize(static_cast<size_t>(*ByteCount(dtype, tensor.shape)));
    ExpectModelRefused(checkpoint, kDown, "got dtype " + std::string(Name(dtype)));
  }
}

TEST(ModelTest, NanInAnyTensorIsNamedWithItsIndex) {
  const EditedCheckpoint whole(GoldenFolder("diffllama-mha"));
  for (const auto& [name, tensor] : whole.tensors) {
    const auto last = static_cast<size_t>(*ElementCount(tensor.shape)) - 1;
    EditedCheckpoint bad = whole;
    bad.tensors.at(name).SetBits(last, 0x7fc00000);
    ExpectModelRefused(bad, "'" + name + "'", Formatted("index {}:", last));
  }
}

TEST(ModelTest, UnknownTensorsAreRefused) {
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  checkpoint.tensors["model.layers.0.self_attn.q_norm.weight"] = checkpoint.tensors.at("model.norm.weight");
  ExpectModelRefused(checkpoint, "model.layers.0.self_attn.q_norm.weight", "not part of the model");
}

// Each of which transformers leaves out, too: the logits stay.
TEST(ModelTest, TensorsBesideTheModelAreLeftOut) {
  static std::string notices;
  notices.clear();
  OnNotice([](const std::string& text) { notices += text + "\n"; });
  for (const char* name : {"llama-mha", "gemma3", "gpt-oss"}) {
    const TemporaryFolder folder;
    EditedCheckpoint checkpoint(GoldenFolder(name));
    const EditedCheckpoint::Tensor some = checkpoint.tensors.at("model.norm.weight");
    for (const char* beside : {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
                               "model.layers.77.mlp.up_proj.weight", "mtp.fc.weight", "v_head.summary.weight",
                               "model.embeddings.position_ids", "model.layers.0.self_attn.k_scale"})
      checkpoint.tensors[beside] = some;
    checkpoint.Write(folder / "m");
    const TokenBatch batch = GoldenBatch(name);
    EXPECT_EQ(FolderLogits(folder / "m", batch), FolderLogits(GoldenFolder(name), batch)) << name;
    EXPECT_THAT(notices, HasSubstr("7 tensors are not part of the model and left out: model.embeddings.position_ids"));
  }
  OnNotice(nullptr);
  for (const char* within : {"model.layers.0.self_attn.q_norm.weight", "model.norm.bias", "model.embed_norm.weight",
                             "blocks.0.attn.freqs"}) {
    EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
    checkpoint.tensors[within] = checkpoint.tensors.at("model.norm.weight");
    ExpectModelRefused(checkpoint, within, "not part of the model");
  }
}

TEST(ModelTest, WithoutAMaskThereIsNoGoingOn) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  checkpoint.config["is_causal"] = false;
  checkpoint.Write(folder / "m");
  Model model(folder / "m");
  EXPECT_THAT(Call([&] { SequenceCache(model.config(), CachePlan{}); }),
              ThrowsMessage<Error>(HasSubstr("is_causal false in config.json")));
  TokenBatch branches;
  branches.Add(0, std::vector<int32_t>{1, 2});
  branches.AddBranch(std::vector<int32_t>{3});
  EXPECT_THAT(Call([&] { model.Forward(branches); }), ThrowsMessage<Error>(HasSubstr("to go on from tokens")));
}

TEST(ModelTest, HeadBesideTiedEmbeddingsMustBeTheSame) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-gqa"));
  checkpoint.tensors["lm_head.weight"] = checkpoint.tensors.at("model.embed_tokens.weight");
  checkpoint.Write(folder / "m");
  const TokenBatch batch = GoldenBatch("llama-gqa");
  EXPECT_EQ(FolderLogits(folder / "m", batch), FolderLogits(GoldenFolder("llama-gqa"), batch));
  checkpoint.tensors["lm_head.weight"].SetBits(77, 0x3f80);
  ExpectModelRefused(checkpoint, "lm_head.weight", "tie_word_embeddings");
}

// Another tool's codes of both, as llm-compressor writes them; other codes for the head are no tied head.
TEST(ModelTest, CodesOfTheHeadBesideTiedEmbeddingsMustBeTheSame) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/interchange/llama-mlx");
  checkpoint.config["tie_word_embeddings"] = true;
  for (const std::string part : {"weight", "scales", "biases"}) checkpoint.tensors.erase("lm_head." + part);
  checkpoint.Write(folder / "tied");
  for (const std::string part : {"weight", "scales", "biases"})
    checkpoint.tensors["lm_head." + part] = checkpoint.tensors.at("model.embed_tokens." + part);
  checkpoint.Write(folder / "twice");
  TokenBatch batch;
  batch.Add(0, std::array{1, 17, 95, 4, 60});
  EXPECT_EQ(FolderLogits(folder / "twice", batch), FolderLogits(folder / "tied", batch));
  checkpoint.tensors.at("lm_head.weight").SetBits(7, 0x12345678);
  ExpectModelRefused(checkpoint, "lm_head.weight", "which config.json ties to it");
  checkpoint.tensors["lm_head.weight"] = {DType::kBF16, {96, 64}, std::vector<std::byte>(size_t{2} * 96 * 64)};
  checkpoint.tensors.erase("lm_head.scales"), checkpoint.tensors.erase("lm_head.biases");
  ExpectModelRefused(checkpoint, "lm_head.weight", "which config.json ties to it");
}

TEST(ModelTest, MisalignedTensorsGiveTheSameLogits) {
  for (const char* name : kGoldenCheckpoints) {
    const TemporaryFolder folder;
    const EditedCheckpoint checkpoint(GoldenFolder(name));
    checkpoint.Write(folder / "aligned");
    checkpoint.WriteMisaligned(folder / "misaligned");
    const TokenBatch batch = GoldenBatch(name);
    const std::vector<float> aligned = FolderLogits(folder / "aligned", batch);
    EXPECT_EQ(aligned, FolderLogits(GoldenFolder(name), batch)) << name;
    // f16 and bf16 become f32, which oneDNN may sum in another order.
    EXPECT_TRUE(AllNear(FolderLogits(folder / "misaligned", batch), aligned, 2e-5)) << name;
  }
}

void CopyShards(const fs::path& to) {
  fs::copy(GoldenFolder("diffllama-gqa"), to);
  for (const auto& entry : fs::directory_iterator(to))
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
}

TEST(ModelTest, MissingShardsAreNamed) {
  const TemporaryFolder folder;
  CopyShards(folder / "m");
  EXPECT_NO_THROW(Model model(folder / "m"));
  fs::remove(folder / "m" / "model-00003-of-00006.safetensors");
  EXPECT_THAT(Call([&] { Model model(folder / "m"); }),
              ThrowsMessage<Error>(HasSubstr("model-00003-of-00006.safetensors")));
}

TEST(ModelTest, DuplicateShardsAreRefused) {
  const TemporaryFolder folder;
  CopyShards(folder / "m");
  fs::copy_file(folder / "m" / "model-00002-of-00006.safetensors", folder / "m" / "model-00003-of-00006.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(Call([&] { Model model(folder / "m"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("twice"), HasSubstr("model-00002"), HasSubstr("model-00003"))));
}

TEST(ModelTest, TruncatedWeightsAreRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint(GoldenFolder("llama-mha")).Write(folder / "m");
  const fs::path file = folder / "m" / "model.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_THAT(Call([&] { Model model(folder / "m"); }), ThrowsMessage<Error>(HasSubstr("model.safetensors")));
}

TEST(ModelTest, TokensOutsideTheVocabularyAreRefused) {
  Model model(GoldenFolder("llama-mha"));
  for (const int32_t id : {160, -1, INT32_MAX, INT32_MIN}) {
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{1, 2, id, 3});
    EXPECT_THAT(
        Call([&] { model.Forward(batch); }),
        ThrowsMessage<Error>(AllOf(HasSubstr("token 2"), HasSubstr(std::to_string(id)), HasSubstr("0 to 159"))));
  }
  TokenBatch batch;
  batch.Add(0, std::vector<int32_t>{0, 159});
  EXPECT_NO_THROW(model.Forward(batch));
}

TEST(ModelTest, SequencesLongerThanThePositionsAreRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  checkpoint.config["max_position_embeddings"] = 512;
  checkpoint.Write(folder / "m");
  Model model(folder / "m");
  const std::vector<int32_t> tokens(513, 5);
  TokenBatch batch;
  batch.Add(41, std::span(tokens).first(512));
  EXPECT_NO_THROW(model.Forward(batch));
  TokenBatch longer;
  longer.Add(42, tokens);
  EXPECT_THAT(Call([&] { model.Forward(longer); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("sequence 42"), HasSubstr("513"), HasSubstr("512"))));
  batch.AddBranch(std::span(tokens).first(1));
  EXPECT_THAT(Call([&] { model.Forward(batch); }), ThrowsMessage<Error>(HasSubstr("sequence 41")));
}

// |a - b| / |b| of each row of so many values; the middle one.
double MedianChange(const std::vector<float>& a, const std::vector<float>& b, size_t width) {
  std::vector<double> changes;
  for (size_t begin = 0; begin < b.size(); begin += width) {
    double size = 0, difference = 0;
    for (size_t i = begin; i < begin + width; ++i) {
      size += double{b[i]} * b[i];
      difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    }
    changes.push_back(std::sqrt(difference / size));
  }
  const auto middle = changes.begin() + std::ssize(changes) / 2;
  std::ranges::nth_element(changes, middle);
  return *middle;
}

// Rounding each factor of each product to 8 bits of mantissa costs about 2^-9 per product; through three layers well
// below 3 %. Of most tokens: one near the middle between two experts may choose the other.
TEST(ModelTest, Bf16ProductsAreNearF32AndRepeat) {
  if (!HasProducts(Math::kBf16)) GTEST_SKIP() << "no products of bf16 here";
  for (const char* name : kGoldenCheckpoints) {
    const TokenBatch batch = GoldenBatch(name);
    const std::vector<float> exact = FolderLogits(GoldenFolder(name), batch),
                             rounded = FolderLogits(GoldenFolder(name), batch, Math::kBf16);
    EXPECT_LT(MedianChange(rounded, exact, exact.size() / static_cast<size_t>(batch.Rows())), 0.03) << name;
    EXPECT_NE(rounded, exact) << name;
    EXPECT_EQ(FolderLogits(GoldenFolder(name), batch, Math::kBf16), rounded) << name;
  }
}

// A checkpoint too large to be copied: matrices become bf16 for each call, and of a single row as they are read.
TEST(ModelTest, WeightsThatBecomeBf16ForCallsGiveTheSameLogits) {
  if (!HasProducts(Math::kBf16)) GTEST_SKIP() << "no products of bf16 here";
  for (const char* name : {"llama-old-config", "llama-mha"}) {  // f16, f32
    Model kept(GoldenFolder(name), Math::kBf16), made(GoldenFolder(name), Math::kBf16, {.converted = 0});
    EXPECT_FALSE(made.layers()[0].q.stored().IsReady(Math::kBf16));
    EXPECT_EQ(kept.layers()[0].q.stored().values.type, WeightType::kBf16);
    TokenBatch one;
    one.Add(0, std::vector<int32_t>{7});
    for (const TokenBatch& batch : {GoldenBatch(name), one})
      EXPECT_EQ(LogitsOf(made, batch), LogitsOf(kept, batch)) << name << ", rows: " << batch.Rows();
  }
}

TEST(ModelTest, SameBitsOnAnyNumberOfThreads) {
  for (const Math math : {Math::kF32, Math::kBf16}) {
    if (!HasProducts(math)) continue;
    for (const char* name : {"llama-gqa", "llama-old-config", "diffllama-gqa", "diffllama-mha"}) {
      std::vector<float> first;
      for (const int threads : {1, 2, 5}) {
        SetThreads(threads);
        const std::vector<float> logits = FolderLogits(GoldenFolder(name), GoldenBatch(name), math);
        if (first.empty()) first = logits;
        EXPECT_EQ(logits, first) << name << " " << threads << " threads";
      }
    }
  }
  SetThreads(0);
}

// Products of more than one chunk of rows and of outputs.
TEST(ModelTest, SameBitsOnAnyNumberOfThreadsForWiderModels) {
  const TemporaryFolder folder;
  const ModelConfig config{.family = "diffllama",
                           .vocabulary = 1100,
                           .hidden = 96,
                           .ffn = 700,
                           .layers = 2,
                           .heads = 6,
                           .kv_heads = 2,
                           .head_dim = 32,
                           .norm_eps = 1e-5f,
                           .max_positions = 700};
  WriteRandomCheckpoint(folder / "m", config, WeightType::kBf16, 1);
  TokenBatch batch;
  for (const int64_t length : {650, 3, 64}) {
    std::vector<int32_t> tokens(static_cast<size_t>(length));
    for (int64_t i = 0; i < length; ++i) tokens[i] = static_cast<int32_t>(i * 577 % 1100);
    batch.Add(length, tokens);
  }
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    const std::vector<float> logits = FolderLogits(folder / "m", batch);
    if (first.empty()) first = logits;
    EXPECT_EQ(logits, first) << threads << " threads";
  }
  SetThreads(0);
}

TEST(ModelTest, ALargerBatchBeforeChangesNothing) {
  Model model(GoldenFolder("diffllama-gqa"));
  TokenBatch small;
  small.Add(0, GoldenRows("diffllama-gqa")[1]);
  const std::vector<float> before = LogitsOf(model, small);
  LogitsOf(model, GoldenBatch("diffllama-gqa"));
  EXPECT_EQ(LogitsOf(model, small), before);
}

TEST(ModelTest, LogitsOfAnyRowsInAnyOrder) {
  Model model(GoldenFolder("llama-mha"));
  const std::vector<float> all = LogitsOf(model, GoldenBatch("llama-mha"));
  const int64_t V = model.config().vocabulary;
  const int64_t rows[] = {73, 0, 40, 40};
  std::vector<int> seen(4);
  model.VocabularyLogits(rows, [&](size_t i, const float* logits, int) {
    ++seen[i];
    const std::span expected = std::span(all).subspan(rows[i] * V, V);
    EXPECT_TRUE(AllNear({logits, static_cast<size_t>(V)}, expected, 2e-5)) << rows[i];
  });
  EXPECT_EQ(seen, std::vector<int>(4, 1));
}

TEST(ModelTest, IsNamedAfterItsFolder) {
  EXPECT_EQ(Model(GoldenFolder("llama-mha")).Name(), "llama-mha");
  EXPECT_EQ(Model(GoldenFolder("llama-mha") / "").Name(), "llama-mha");
  EXPECT_EQ(Model(GoldenFolder("llama-mha") / "." / ".." / "llama-gqa").Name(), "llama-gqa");
}

}  // namespace
}  // namespace tare::model_test
