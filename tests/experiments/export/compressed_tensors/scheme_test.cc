// SPDX-License-Identifier: Apache-2.0
// Which scheme holds which rules, and what is refused, before anything is read.
#include "experiments/export/compressed_tensors/scheme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::compressed_scheme_test {
namespace {

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

}  // namespace
}  // namespace tare::compressed_scheme_test
