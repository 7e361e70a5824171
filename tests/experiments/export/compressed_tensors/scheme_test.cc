// SPDX-License-Identifier: Apache-2.0
// Which scheme holds which rules, and what is refused, before anything is read.
#include "experiments/export/compressed_tensors/export.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "quant/base/message.h"
#include "quant/format/pack.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::compressed_scheme_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

CompressedScheme Of(const std::string& plan) {
  const Plan parsed = Plan::Parse(plan);
  return SchemeOf(parsed.rules()[0], parsed.rules().size() > 1 ? &parsed.rules()[1] : nullptr);
}

TEST(CompressedScheme, FormatsFollowTheRules) {
  const std::pair<const char*, const char*> formats[]{
      {"weights=int4/group32", "pack-quantized"},
      {"weights=int8/channel+mse", "pack-quantized"},
      {"weights=int8/tensor", "int-quantized"},
      {"weights=int8/channel,linear_in=int8/token", "int-quantized"},
      {"weights=int8/tensor,linear_in=int8/tensor+static", "int-quantized"},
      {"weights=fp8e4m3/channel", "float-quantized"},
      {"weights=fp8e4m3:ties-away/tensor,linear_in=fp8e4m3/token", "float-quantized"},
      {"weights=mxfp8e4m3,linear_in=mxfp8e4m3", "mxfp8-quantized"},
      {"weights=nvfp4:256", "nvfp4-pack-quantized"},
      {"weights=mxfp4:rceil,linear_in=mxfp4", "mxfp4-pack-quantized"}};
  for (const auto& [plan, format] : formats) EXPECT_EQ(Of(plan).format, format) << plan;
  EXPECT_EQ(Of("weights=int4/group32").weights.dump(),
            R"({"num_bits":4,"type":"int","symmetric":true,"strategy":"group","dynamic":false,"group_size":32})");
  EXPECT_EQ(Of("weights=int8/channel,linear_in=int8/token").inputs.dump(),
            R"({"num_bits":8,"type":"int","symmetric":true,"strategy":"token","dynamic":true})");
  const CompressedScheme fixed = Of("weights=fp8e4m3/channel,linear_in=fp8e4m3/tensor+static");
  EXPECT_EQ(fixed.inputs["strategy"], "tensor");
  EXPECT_EQ(fixed.inputs["dynamic"], false);
  EXPECT_EQ(fixed.largest_input, 448);
}

void Refuses(const std::string& plan, const std::string& why) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  EXPECT_THAT(Call([&] { CheckCompressed(Plan::Parse(plan), config); }), ThrowsMessage<Error>(HasSubstr(why))) << plan;
}

TEST(CompressedScheme, WhatNoneHoldsIsRefusedByName) {
  Refuses("weights=int6/channel",
          "plan rule 'weights=int6/channel': got what --format compressed-tensors does not write, expected weights in "
          "int4, int8, fp8e4m3, mxfp8e4m3, nvfp4 or mxfp4; try --format safetensors");
  for (const char* format : {"nf4/channel", "ternary/channel", "fp8e4m3:floor/channel", "mxfp6e2m3", "mxint8",
                             "fp8e5m2/channel", "grid(-1 0 1)/channel"})
    Refuses(std::string("weights=") + format, "expected weights in int4, int8");
  for (const char* rotated : {"weights=int4/channel+hadamard", "weights=int8/channel,linear_in=int8/token+hadamard16"})
    Refuses(rotated, "does not write, expected rows that are not rotated; try --method hadamard");
  Refuses("weights=int4/tensor", "expected int4 per channel or group<N>; try int4/channel");
  Refuses("weights=fp8e4m3/group16", "expected fp8e4m3 per tensor or channel");
  Refuses("weights=int8/channel,q=int8/token+hadamard", "plan rule 'q=int8/token+hadamard': got what --format");
  Refuses("weights=int8/channel,cache_k=int8/token", "expected rules for weights and inputs of linear layers");
  Refuses("weights=int4/channel,linear_in=int4/token", "plan rule 'linear_in=int4/token': got what --format");
  Refuses("weights=int8/channel,linear_in=fp8e4m3/token", "inputs of weights in the same format");
  Refuses("weights=nvfp4,linear_in=nvfp4", "NVFP4's inputs need a static scale");
  Refuses("weights=int8/group16,linear_in=int8/token", "expected weights per tensor or channel where inputs are");
  Refuses("weights=int8/channel,linear_in=int8/tensor", "expected inputs per token, or per tensor+static");
  Refuses("weights=int8/channel,linear_in=int8/token+p99", "expected inputs that are not clipped");
  Refuses("linear_in=int8/token", "expected inputs of weights that are rounded, too");
}

TEST(CompressedScheme, ExemptedPlacesAndTheHeadAreNoMatter) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  for (const char* plan :
       {"weights=int8/channel,linear_in=int8/token,down_proj.w=f32,down_proj.in=f32",
        "weights=int8/channel,lm_head.w=int4/group16", "weights[l0]=int8/channel", "weights=int8/channel,q=f32", ""})
    EXPECT_NO_THROW(CheckCompressed(Plan::Parse(plan), config)) << plan;
}

// One row, whose codes are these values.
QuantizedMatrixBuffer Row(Format format, const std::vector<float>& values, int64_t group) {
  const auto in = std::ssize(values);
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  QuantizedMatrixBuffer matrix(format, 1, in, group, most);
  for (int64_t g = 0; g < matrix.view().Groups(); ++g) matrix.SetScale(0, g, {0.0f, Info(format).Largest()});
  Pack<float>(format, values, {matrix.Codes(0), matrix.view().RowBytes()});
  return matrix;
}

template <typename T>
std::vector<T> As(const TensorView& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

CompressedScheme Of(const char* plan) { return SchemeOf(Plan::Parse(plan).rules()[0], nullptr); }

TEST(CompressedMatrix, Int4IsEightCodesInAWordFromTheLowest) {
  const QuantizedMatrixBuffer m = Row(Format::kInt4, {-7, 7, 0, 1, -1, 2, -2, 3, 5, -5}, 10);
  const NewModule module = ModuleOf("x", m.view(), Of("weights=int4/channel"), "here");
  ASSERT_EQ(module.tensors.size(), 3u);
  EXPECT_EQ(module.tensors[0].name, "x.weight_packed");
  EXPECT_THAT(module.tensors[0].shape, ElementsAre(1, 2));
  EXPECT_THAT(As<uint32_t>(module.tensors[0]), ElementsAre(0xb6a798f1u, 0x3du));  // codes + 8
  EXPECT_EQ(module.tensors[1].name, "x.weight_shape");
  EXPECT_THAT(As<int64_t>(module.tensors[1]), ElementsAre(1, 10));
  EXPECT_EQ(module.tensors[2].name, "x.weight_scale");
  EXPECT_THAT(As<float>(module.tensors[2]), ElementsAre(1));
}

// Codes from 0 as they are, and zero points of ten rows in two words of each group.
TEST(CompressedMatrix, ZeroPointsArePackedAlongRows) {
  QuantizedMatrixBuffer m(*ParseMatrixFormat("int4+zero"), 10, 32, 16);
  for (int64_t row = 0; row < 10; ++row) {
    Pack<uint8_t>(m.view().format, std::vector<uint8_t>(32, static_cast<uint8_t>(row)),
                  {m.Codes(row), m.view().RowBytes()});
    for (int64_t g = 0; g < 2; ++g) {
      m.Scales(row)[g] = 1;
      m.Zeros(row)[g] = static_cast<uint8_t>(g == 0 ? row : 15 - row);
    }
  }
  const NewModule module = ModuleOf("x", m.view(), Of("weights=int4/group16+zero"), "here");
  ASSERT_EQ(module.tensors.size(), 4u);
  EXPECT_EQ(As<uint32_t>(module.tensors[0])[4 * 3], 0x33333333u);
  EXPECT_EQ(module.tensors[3].name, "x.weight_zero_point");
  EXPECT_THAT(module.tensors[3].shape, ElementsAre(2, 2));
  EXPECT_THAT(As<uint32_t>(module.tensors[3]), ElementsAre(0x76543210u, 0x89abcdefu, 0x98u, 0x67u));
}

TEST(CompressedMatrix, Mxfp4IsNeighboursInAByteTheFirstLow) {
  std::vector<float> values(32, 0.0f);
  values[0] = 0.5f, values[1] = -6, values[2] = 1.5f, values[31] = 4;
  const QuantizedMatrixBuffer m = Row(Format::kMxFp4, values, 32);
  const NewModule module = ModuleOf("x", m.view(), Of("weights=mxfp4"), "here");
  const auto bytes = As<uint8_t>(module.tensors[0]);
  EXPECT_EQ(bytes.size(), 16u);
  EXPECT_EQ(bytes[0], 0xf1);
  EXPECT_EQ(bytes[1], 0x03);
  EXPECT_EQ(bytes[15], 0x60);
  EXPECT_EQ(module.tensors[1].dtype, DType::kU8);
  EXPECT_THAT(As<uint8_t>(module.tensors[1]), ElementsAre(127));  // 2^0
}

TEST(CompressedMatrix, RowsThatEndWithinABlockAreRefused) {
  const QuantizedMatrixBuffer m = Row(Format::kMxFp4, std::vector<float>(40, 1.0f), 32);
  EXPECT_THAT(
      Call([&] { ModuleOf("x", m.view(), Of("weights=mxfp4"), "here"); }),
      testing::ThrowsMessage<Error>(testing::HasSubstr(
          "here: tensor 'x.weight': got rows of 40 weights, expected a multiple of 32 as mxfp4-pack-quantized")));
}

// a / g against a t: each is rounded once, and g is within 2^-24 of 1 / t, or its neighbour: 2^-22 of the product.
TEST(CompressedMatrix, DivisorsAreNear) {
  for (const float t : {1.0f, 0.001f, 3.7e-5f, 0.123456f, 7.0f / 3.0f}) {
    const float g = DivisorFor(t);
    for (float a = 8; a < 16; ++a) EXPECT_NEAR(a / g, a * t, a * t * 0x1p-22f) << t;
  }
  EXPECT_EQ(DivisorFor(0.25f), 4);
  EXPECT_EQ(DivisorFor(0), 1);
}

}  // namespace
}  // namespace tare::compressed_scheme_test
