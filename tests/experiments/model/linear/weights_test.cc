// SPDX-License-Identifier: Apache-2.0
// Tensors by name: which are refused and with what message, which stay in the mapped file, and which are converted.
#include "experiments/model/linear/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "experiments/model/config/config.h"
#include "experiments/quantize/quantize.h"
#include "quant/base/message.h"
#include "quant/checkpoint/matrix_parts.h"
#include "tests/support/arrays.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::weights_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kNorm = "model.norm.weight";

// llama-mha is stored in f32, llama-gqa in bf16, llama-old-config in f16.
struct Stored {
  const char* name;
  DType dtype;
  WeightType type;
  uint32_t nan, infinity;
};
constexpr Stored kStored[] = {{"llama-mha", DType::kF32, WeightType::kF32, 0x7fc00000, 0xff800000},
                              {"llama-gqa", DType::kBF16, WeightType::kBf16, 0x7fc0, 0xff80},
                              {"llama-old-config", DType::kF16, WeightType::kF16, 0x7e00, 0xfc00}};

// One tensor of three rows; the rest of a checkpoint does not matter to Weights.
struct OneTensor {
  OneTensor(DType dtype, std::vector<int64_t> shape) {
    const auto bytes = static_cast<size_t>(*ByteCount(dtype, shape));
    PutFile(folder / "config.json", "{}");
    tensor = {dtype, std::move(shape), std::vector<std::byte>(bytes)};
  }
  Weights Open(const Projector& projector) {
    WriteSafetensors(folder / "model.safetensors", {{"w", tensor.dtype, tensor.shape, tensor.bytes}});
    return Weights(folder.path(), projector);
  }
  TemporaryFolder folder;
  EditedCheckpoint::Tensor tensor;
};

bool IsMapped(const Weights& weights, const std::string& name, const WeightMatrix& matrix) {
  return matrix.values.data == weights.files().Find(name)->bytes.data();
}

TEST(WeightsTest, MissingAndMisshapenTensorsAreNamedWithBothShapes) {
  const Projector projector(Math::kF32);
  Weights weights(GoldenFolder("llama-mha"), projector);
  EXPECT_THAT(Call([&] { weights.Matrix("model.none.weight", 3, 5); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("'model.none.weight'"), HasSubstr("[3, 5]"))));
  EXPECT_THAT(Call([&] { weights.Matrix(kEmbedding, 64, 160); }),
              ThrowsMessage<Error>(AllOf(HasSubstr(kEmbedding), HasSubstr("[160, 64]"), HasSubstr("[64, 160]"))));
  EXPECT_THAT(Call([&] { weights.Stored(kEmbedding, 160, 63); }), ThrowsMessage<Error>(HasSubstr("[160, 63]")));
  EXPECT_THAT(Call([&] { weights.Vector(kEmbedding, {160 * 64}); }), ThrowsMessage<Error>(HasSubstr("[10240]")));
  EXPECT_THAT(Call([&] { weights.Vector(kNorm, {65}); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("[64]"), HasSubstr("[65]"))));
  EXPECT_NO_THROW(weights.Vector(kNorm, {64}));
}

TEST(WeightsTest, OtherTypesAreRefusedByName) {
  const Projector projector(Math::kF32);
  for (const DType dtype :
       {DType::kI8, DType::kU8, DType::kF64, DType::kI32, DType::kF8E4M3, DType::kBool, DType::kF4}) {
    OneTensor one(dtype, {3, 4});
    Weights weights = one.Open(projector);
    const auto refused = ThrowsMessage<Error>(
        AllOf(HasSubstr("'w'"), HasSubstr("got dtype " + std::string(Name(dtype))), HasSubstr("F32, BF16 or F16")));
    EXPECT_THAT([&] { weights.Matrix("w", 3, 4); }, refused);
    EXPECT_THAT([&] { weights.Stored("w", 3, 4); }, refused);
  }
}

// 1.25 million values: more than one part, of 2^20, that a thread looks at, and than one step, of 4,096.
TEST(WeightsTest, NanAndInfinityAreNamedWithTheirIndex) {
  const Projector projector(Math::kF32);
  constexpr int64_t kOut = 5, kIn = 250000;
  constexpr size_t kCount = kOut * kIn;
  for (const Stored& stored : kStored) {
    OneTensor one(stored.dtype, {kOut, kIn});
    for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, kCount / 2, size_t{1} << 20, kCount - 1}) {
      for (const uint32_t bits : {stored.nan, stored.infinity}) {
        one.tensor.SetBits(at, bits);
        Weights weights = one.Open(projector);
        const auto refused = ThrowsMessage<Error>(AllOf(HasSubstr("'w'"), HasSubstr(Formatted("index {}:", at))));
        EXPECT_THAT([&] { weights.Matrix("w", kOut, kIn); }, refused);
      }
      one.tensor.SetBits(at, 0);
    }
    EXPECT_NO_THROW(one.Open(projector).Matrix("w", kOut, kIn));
  }
}

TEST(WeightsTest, VectorsAndRowsAreCheckedToo) {
  const Projector projector(Math::kF32);
  OneTensor one(DType::kBF16, {9});
  one.tensor.SetBits(8, 0x7f80);
  EXPECT_THAT(Call([&] { one.Open(projector).Vector("w", {9}); }), ThrowsMessage<Error>(HasSubstr("index 8:")));
  OneTensor rows(DType::kF16, {2, 3});
  rows.tensor.SetBits(4, 0x7c01);
  EXPECT_THAT(Call([&] { rows.Open(projector).Stored("w", 2, 3); }), ThrowsMessage<Error>(HasSubstr("index 4:")));
}

// The largest finite values are no infinities.
TEST(WeightsTest, LargestValuesAreFinite) {
  const Projector projector(Math::kF32);
  const std::pair<DType, uint32_t> largest[] = {
      {DType::kF32, 0xff7fffff}, {DType::kBF16, 0xff7f}, {DType::kF16, 0xfbff}};
  for (const auto& [dtype, bits] : largest) {
    OneTensor one(dtype, {3});
    one.tensor.SetBits(1, bits);
    EXPECT_EQ(one.Open(projector).Vector("w", {3})[1], one.tensor.Value(1));
  }
}

TEST(WeightsTest, MatricesStayInTheMappedFile) {
  const Projector projector(Math::kF32);
  for (const Stored& stored : kStored) {
    const ModelConfig config = LoadConfig(GoldenFolder(stored.name));
    Weights weights(GoldenFolder(stored.name), projector);
    const WeightMatrix matrix = weights.Matrix(kEmbedding, config.vocabulary, config.hidden);
    const bool native = projector.IsNative(stored.type, config.vocabulary, config.hidden);
    EXPECT_EQ(IsMapped(weights, kEmbedding, matrix), native) << stored.name;
    EXPECT_EQ(matrix.values.type, native ? stored.type : WeightType::kF32);
    EXPECT_TRUE(IsMapped(weights, kEmbedding, weights.Stored(kEmbedding, config.vocabulary, config.hidden)));
  }
}

TEST(WeightsTest, RowsAndVectorsAreTheStoredValues) {
  const Projector projector(Math::kF32);
  for (const Stored& stored : kStored) {
    const EditedCheckpoint source(GoldenFolder(stored.name));
    const EditedCheckpoint::Tensor& embedding = source.tensors.at(kEmbedding);
    const int64_t out = embedding.shape[0], in = embedding.shape[1];
    Weights weights(GoldenFolder(stored.name), projector);
    std::vector<float> row(static_cast<size_t>(in));
    for (const WeightMatrix& matrix : {weights.Matrix(kEmbedding, out, in), weights.Stored(kEmbedding, out, in)}) {
      for (int64_t r = 0; r < out; ++r) {
        RowAsFloat(matrix, r, row.data());
        for (int64_t i = 0; i < in; ++i)
          ASSERT_EQ(row[i], embedding.Value(r * in + i)) << stored.name << " " << r << " " << i;
      }
    }
    const std::vector<float> norm = weights.Vector(kNorm, {in});
    for (int64_t i = 0; i < in; ++i) ASSERT_EQ(norm[i], source.tensors.at(kNorm).Value(i));
  }
}

TEST(WeightsTest, Bf16MathConvertsWhatIsNotBf16) {
  if (!HasProducts(Math::kBf16)) GTEST_SKIP() << "no products of bf16 here";
  const Projector projector(Math::kBf16);
  for (const Stored& stored : kStored) {
    const EditedCheckpoint source(GoldenFolder(stored.name));
    const EditedCheckpoint::Tensor& embedding = source.tensors.at(kEmbedding);
    const int64_t out = embedding.shape[0], in = embedding.shape[1];
    Weights weights(GoldenFolder(stored.name), projector);
    const WeightMatrix matrix = weights.Matrix(kEmbedding, out, in);
    ASSERT_EQ(matrix.values.type, WeightType::kBf16);
    EXPECT_EQ(IsMapped(weights, kEmbedding, matrix), stored.type == WeightType::kBf16) << stored.name;
    const auto* bits = static_cast<const uint16_t*>(matrix.values.data);
    for (int64_t i = 0; i < out * in; ++i)
      ASSERT_EQ(bits[i], Bf16FromFloat(embedding.Value(i))) << stored.name << " " << i;
    EXPECT_EQ(weights.Stored(kEmbedding, out, in).values.type, stored.type);
  }
}

// A checkpoint too large for copies: its matrices stay in the file, and are converted in the memory of a call.
TEST(WeightsTest, WhatIsNotKeptIsConvertedForCalls) {
  if (!HasProducts(Math::kBf16)) GTEST_SKIP() << "no products of bf16 here";
  const Projector projector(Math::kBf16);
  for (const Stored& stored : kStored) {
    const EditedCheckpoint source(GoldenFolder(stored.name));
    const EditedCheckpoint::Tensor& embedding = source.tensors.at(kEmbedding);
    const int64_t out = embedding.shape[0], in = embedding.shape[1];
    Weights kept(GoldenFolder(stored.name), projector), made(GoldenFolder(stored.name), projector, 0);
    const WeightMatrix matrix = made.Matrix(kEmbedding, out, in);
    EXPECT_TRUE(IsMapped(made, kEmbedding, matrix));
    EXPECT_EQ(matrix.IsReady(Math::kBf16), stored.type == WeightType::kBf16) << stored.name;
    if (matrix.IsReady(Math::kBf16)) continue;
    AlignedBuffer<char> memory;
    const DenseMatrix converted = InFloat(matrix, Math::kBf16, memory, stored.name);
    EXPECT_TRUE(WeightMatrix(converted).IsReady(Math::kBf16));
    const DenseMatrix same = kept.Matrix(kEmbedding, out, in).values;
    EXPECT_EQ(std::memcmp(converted.data, same.data, static_cast<size_t>(2 * out * in)), 0);
  }
}

// An odd offset in the file: taken into aligned memory, the values unchanged.
TEST(WeightsTest, MisalignedTensorsAreCopied) {
  const TemporaryFolder folder;
  for (const Math math : {Math::kF32, Math::kBf16}) {
    if (!HasProducts(math)) continue;
    const Projector projector(math);
    for (const Stored& stored : kStored) {
      const EditedCheckpoint source(GoldenFolder(stored.name));
      source.WriteMisaligned(folder / stored.name);
      Weights weights(folder / stored.name, projector);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(weights.files().Find(kEmbedding)->bytes.data()) % 2, 1u);
      const EditedCheckpoint::Tensor& embedding = source.tensors.at(kEmbedding);
      const int64_t out = embedding.shape[0], in = embedding.shape[1];
      const WeightMatrix matrix = weights.Matrix(kEmbedding, out, in);
      EXPECT_FALSE(IsMapped(weights, kEmbedding, matrix));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(matrix.values.data) % 4, 0u);
      std::vector<float> row(static_cast<size_t>(in));
      RowAsFloat(matrix, out - 1, row.data());
      for (int64_t i = 0; i < in; ++i) {
        const float value = embedding.Value((out - 1) * in + i);
        ASSERT_EQ(row[i], math == Math::kF32 ? value : FloatFromBf16(Bf16FromFloat(value)));
      }
      EXPECT_EQ(weights.Vector(kNorm, {in})[3], source.tensors.at(kNorm).Value(3));
    }
  }
}

const ModelConfig kLlamaConfig{.family = "llama", .layers = 1};

TEST(WeightsTest, UnusedTensorsAreNamed) {
  const Projector projector(Math::kF32);
  const TemporaryFolder folder;
  PutFile(folder / "config.json", "{}");
  PutArrays(folder / "model.safetensors", {{"model.w", SomeArray({2, 2})}});
  Weights weights(folder.path(), projector);
  EXPECT_THAT(Call([&] { weights.CheckAllTaken(kLlamaConfig); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("'model.w'"), HasSubstr("not part of the model"))));
  EXPECT_TRUE(weights.Has("model.w"));
  EXPECT_FALSE(weights.Has("model.v"));
  weights.Ignore("model.w");
  EXPECT_NO_THROW(weights.CheckAllTaken(kLlamaConfig));
  Weights taken(folder.path(), projector);
  taken.Matrix("model.w", 2, 2);
  EXPECT_NO_THROW(taken.CheckAllTaken(kLlamaConfig));
}

TEST(WeightsTest, BiasesOfZerosAreNoPartOfAModel) {
  const Projector projector(Math::kF32);
  const TemporaryFolder folder;
  PutFile(folder / "config.json", "{}");
  for (const uint16_t last : {0, 1}) {
    const std::vector<uint16_t> bias{0, 0, last};
    WriteSafetensors(folder / "model.safetensors",
                     {{"model.q_proj.bias", DType::kF16, {3}, std::as_bytes(std::span(bias))}});
    const Weights weights(folder.path(), projector);
    if (last == 0) {
      EXPECT_NO_THROW(weights.CheckAllTaken(kLlamaConfig));
    } else {
      EXPECT_THAT(Call([&] { weights.CheckAllTaken(kLlamaConfig); }),
                  ThrowsMessage<Error>(HasSubstr("'model.q_proj.bias': not part")));
    }
  }
}

TEST(WeightsTest, SameBytesComparesTypeShapeAndBytes) {
  const TemporaryFolder folder;
  const std::vector<std::byte> ones(8, std::byte{1}), twos(8, std::byte{2});
  WriteSafetensors(folder / "model.safetensors", {{"a", DType::kF32, {1, 2}, ones},
                                                  {"b", DType::kF32, {1, 2}, ones},
                                                  {"bytes", DType::kF32, {1, 2}, twos},
                                                  {"shape", DType::kF32, {2, 1}, ones},
                                                  {"type", DType::kBF16, {1, 4}, ones}});
  const Projector projector(Math::kF32);
  const Weights weights(folder.path(), projector);
  EXPECT_TRUE(weights.SameBytes("a", "b"));
  for (const char* other : {"bytes", "shape", "type", "none"}) {
    EXPECT_FALSE(weights.SameBytes("a", other)) << other;
    EXPECT_FALSE(weights.SameBytes(other, "a")) << other;
  }
}

}  // namespace
}  // namespace tare::weights_test

namespace tare::fused_tensors_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const std::string kLayer1 = "model.layers.1.";

TEST(FusedTensorsTest, PartsAreRowsInOrder) {
  const std::filesystem::path folder = GoldenFolder("phi4flash");
  const Checkpoint whole(folder);
  const Checkpoint split = OpenSplit(folder, LoadConfig(folder));
  for (const std::string name : {"attn.Wqkv.weight", "attn.Wqkv.bias", "mlp.fc1.weight"}) {
    const std::string base = name.substr(0, name.rfind('.')), kind = name.substr(name.rfind('.'));
    const TensorView& fused = *whole.Find(kLayer1 + name);
    EXPECT_EQ(split.Find(kLayer1 + name), nullptr);
    const std::byte* next = fused.bytes.data();
    for (const char* part : {".q", ".k", ".v", ".gate", ".up"}) {
      const TensorView* rows = split.Find(kLayer1 + base + part + kind);
      if (rows == nullptr) continue;
      EXPECT_TRUE(std::ranges::equal(rows->bytes, std::span(next, rows->bytes.size()))) << base << part;
      next += rows->bytes.size();
    }
    EXPECT_EQ(next, fused.bytes.data() + fused.bytes.size()) << name;
  }
}

TEST(FusedTensorsTest, OthersStayAsTheyAre) {
  EXPECT_THAT(FusedTensors(LoadConfig(GoldenFolder("llama-gqa"))), IsEmpty());
  const std::filesystem::path folder = GoldenFolder("phi4flash");
  const Checkpoint whole(folder), split = OpenSplit(folder, LoadConfig(folder));
  EXPECT_EQ(split.total_bytes(), whole.total_bytes());
  EXPECT_TRUE(split.Has("model.layers.0.attn.in_proj.weight"));
  EXPECT_EQ(split.Find("model.layers.7.attn.Wqkv.q.weight")->shape[0], 64);  // shared keys: queries alone
  EXPECT_FALSE(split.Has("model.layers.7.attn.Wqkv.k.weight"));
}

TEST(FusedTensorsTest, WrongRowsAreRefused) {
  EditedCheckpoint checkpoint(GoldenFolder("phi4flash"));
  EditedCheckpoint::Tensor& fused = checkpoint.tensors.at(kLayer1 + "attn.Wqkv.weight");
  const TemporaryFolder folder;
  fused.shape = {64, 128};
  checkpoint.Write(folder / "m");
  EXPECT_THAT(
      Call([&] { OpenSplit(folder / "m", LoadConfig(folder / "m")); }),
      ThrowsMessage<Error>(HasSubstr(
          "tensor 'model.layers.1.attn.Wqkv.weight': got shape [64, 128], expected 128 rows from config.json")));
  fused.shape = {128, 64};
  checkpoint.tensors[kLayer1 + "attn.Wqkv.q.weight"] = fused;
  checkpoint.Write(folder / "n");
  EXPECT_THAT(Call([&] { OpenSplit(folder / "n", LoadConfig(folder / "n")); }),
              ThrowsMessage<Error>(HasSubstr("expected one of them")));
}

}  // namespace
}  // namespace tare::fused_tensors_test

namespace tare::stored_size_test {
namespace {

TEST(StoredSize, CountsTensorsCodesAndScales) {
  const TemporaryFolder folder;
  const std::filesystem::path source = GoldenFolder("llama-mha");
  Quantize({source, Plan::Parse("weights=int8/channel"), folder / "q.h5"}, {});
  const Checkpoint whole(source), quantized(folder / "q.h5");
  const StoredSize before = StoredSizeOf(whole), after = StoredSizeOf(quantized);
  EXPECT_EQ(before.bytes, static_cast<uint64_t>(whole.total_bytes()));
  EXPECT_EQ(after.bytes, static_cast<uint64_t>(quantized.total_bytes()));
  EXPECT_EQ(after.values, before.values);
  EXPECT_EQ(before.BitsPerWeight(), 8.0 * static_cast<double>(before.bytes) / static_cast<double>(before.values));
  EXPECT_LT(after.BitsPerWeight(), before.BitsPerWeight());
}

}  // namespace
}  // namespace tare::stored_size_test
