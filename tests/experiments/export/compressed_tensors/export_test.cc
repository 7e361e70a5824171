// SPDX-License-Identifier: Apache-2.0
// What is written as compressed-tensors is read back by Tare's reader of that tool's folders to the bits of the codes,
// whatever the scheme and the method.
#include "experiments/export/compressed_tensors/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/model.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/logits.h"

namespace tare::compressed_export_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Hidden 32, FFN 64: whole blocks.
const std::filesystem::path kModel = TARE_SOURCE_DIR "/tests/data/gguf/llama-linear.gguf";

class CompressedExport : public testing::Test {
 protected:
  CompressedSummary Write(const std::string& plan, const std::string& method = "rtn",
                          const std::filesystem::path& model = kModel) {
    std::filesystem::remove_all(folder_ / "out");
    QuantizeJob job{.model = model, .plan = Plan::Parse(plan), .out = folder_ / "q.h5"};
    job.method = ParseMethod(method);
    if (job.method.RoundsByCalibration()) {
      PutManyIds(folder_ / "ids.safetensors", 4, 20);
      job.calibration = folder_ / "ids.safetensors";
    }
    Quantize(job, {});
    return ExportCompressed(folder_ / "q.h5", folder_ / "out", "1.2.3");
  }
  // The largest relative difference of any weight.
  double Difference() const {
    const QuantizedCheckpoint codes(folder_ / "q.h5");
    const Checkpoint written(folder_ / "out");
    double most = 0;
    for (const auto& [name, m] : codes.matrices()) {
      const ForeignMatrix* const theirs = written.FindForeign(name);
      EXPECT_NE(theirs, nullptr) << name;
      if (theirs == nullptr) return 1;
      std::vector<float> a(static_cast<size_t>(m.in)), b(a.size());
      for (int64_t row = 0; row < m.out; ++row) {
        DequantizeRow(m, row, a.data());
        theirs->Row(row, b.data());
        for (size_t i = 0; i < a.size(); ++i) {
          if (a[i] != b[i]) most = std::max(most, std::abs(double{a[i]} - b[i]) / std::abs(double{a[i]}));
        }
      }
    }
    return most;
  }
  TemporaryFolder folder_;
};

TEST_F(CompressedExport, IsReadBackToTheSameBits) {
  for (const char* plan :
       {"weights=int4/group16", "weights=int4/channel", "weights=int8/channel", "weights=int8/tensor",
        "weights=int8/group32", "weights=int8/channel,linear_in=int8/token", "weights=fp8e4m3/channel",
        "weights=fp8e4m3/tensor,linear_in=fp8e4m3/token", "weights=mxfp8e4m3", "weights=mxfp4",
        "weights=int4/group16+zero,down_proj.w=int8/tensor+zero", "weights=int8/channel+full,linear_in=int8/token",
        "weights=mxfp4,down_proj.w=int4/group16,lm_head.w=int8/channel", "weights[l1]=int4/group16"}) {
    Write(plan);
    EXPECT_EQ(Difference(), 0) << plan;
  }
}

// The second scale is a divisor there (export.h).
TEST_F(CompressedExport, OfNvfp4IsNear) {
  Write("weights=nvfp4");
  EXPECT_LE(Difference(), 0x1p-22);
}

TEST_F(CompressedExport, TheModelIsTheSame) {
  for (const char* method : {"rtn", "gptq", "gptaq+quantease", "hadamard+rtn"}) {
    Write("weights=int4/group16", method);
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{1, 9, 30, 4, 4, 17, 90, 2});
    Model codes(folder_ / "q.h5"), written(folder_ / "out");
    EXPECT_EQ(LogitsOf(codes, batch), LogitsOf(written, batch)) << method;
    EXPECT_THAT(GetFile(folder_ / "out" / "README.md"), HasSubstr("- method: `" + std::string(method) + "`"));
  }
  EXPECT_THAT(GetFile(folder_ / "out" / "README.md"), HasSubstr("Written by Tare 1.2.3"));
}

// q, k and v become one module, and gate and up another; its rows are the rows of its parts.
TEST_F(CompressedExport, FusedMatricesAreWritten) {
  const std::filesystem::path phi3 = GoldenFolder("phi3");
  const TokenBatch batch = GoldenBatch("phi3");
  for (const char* plan : {"weights=int4/group16", "weights=int4/group16+zero",
                           "weights=int8/channel,q_proj.in=int8/token,"
                           "k_proj.in=int8/token,v_proj.in=int8/token",
                           "down_proj.w=int4/group16", "weights=mxfp8e4m3,weights=int4/channel"}) {
    Write(plan, "rtn", phi3);
    Model codes(folder_ / "q.h5"), written(folder_ / "out");
    EXPECT_EQ(LogitsOf(codes, batch), LogitsOf(written, batch)) << plan;
    const CheckpointFiles files(folder_ / "out");
    for (const std::string& name : files.names()) EXPECT_FALSE(name.contains("qkv_proj.q")) << plan << " " << name;
  }
  const std::string config = GetFile(folder_ / "out" / "config.json");
  EXPECT_EQ(config.find("qkv_proj.q"), config.npos);
  for (const char* plan :
       {"q_proj.w=int4/group16", "weights=int4/group16,v_proj.w=int8/channel", "weights=int8/tensor"})
    EXPECT_THAT(Call([&] { Write(plan, "rtn", phi3); }),
                ThrowsMessage<Error>(HasSubstr("got codes of parts of 'model.layers.0.")))
        << plan;
}

TEST_F(CompressedExport, ExpertsInOneTensorAreRefused) {
  EXPECT_THAT(Call([&] { Write("q_proj.w=int4/group16", "rtn", GoldenFolder("gpt-oss")); }),
              ThrowsMessage<Error>(HasSubstr("got experts that are one tensor, expected a matrix for each")));
}

TEST_F(CompressedExport, ConfigurationsSayTheSchemes) {
  EXPECT_EQ(FormatsText(Write("weights=int8/channel,linear_in=int8/token")), "14 matrices in int-quantized");
  const auto one = ParseJson(GetFile(folder_ / "out" / "config.json"), "c")["quantization_config"];
  EXPECT_EQ(one["format"], "int-quantized");
  EXPECT_EQ(one["ignore"], nlohmann::json{"lm_head"});
  EXPECT_EQ(one["config_groups"]["group_0"]["targets"], nlohmann::json{"Linear"});
  EXPECT_THAT(Checkpoint(folder_ / "out").notes(),
              testing::ElementsAre("inputs were meant to be rounded as well: --plan linear_in=int8/token"));
  EXPECT_EQ(FormatsText(Write("weights=mxfp4,down_proj.w=int4/group16")),
            "12 matrices in mxfp4-pack-quantized, 2 in pack-quantized");
  const auto two = ParseJson(GetFile(folder_ / "out" / "config.json"), "c")["quantization_config"];
  EXPECT_EQ(two["format"], "mixed-precision");
  EXPECT_EQ(two["config_groups"]["group_0"]["targets"][1], "model.layers.1.mlp.down_proj");
}

TEST_F(CompressedExport, WhatIsRefusedMakesNoFolder) {
  Quantize({.model = kModel, .plan = Plan::Parse("weights=int6/channel"), .out = folder_ / "s.h5"}, {});
  EXPECT_THAT(Call([&] { ExportCompressed(folder_ / "s.h5", folder_ / "no", "1"); }),
              ThrowsMessage<Error>(HasSubstr("plan rule 'weights=int6/channel': got what --format")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "no"));
}

}  // namespace
}  // namespace tare::compressed_export_test
