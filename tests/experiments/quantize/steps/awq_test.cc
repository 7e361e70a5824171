// SPDX-License-Identifier: Apache-2.0
// The search against the golden one: AWQ's published definition in Python, on inputs that transformers computes; and
// what it does to whole models.
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
#include "experiments/quantize/steps/smoothquant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/config/config.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/channel_transforms.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/quantized_checkpoint.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/logits.h"

namespace tare::awq_step_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kPlan = "weights=int4/group16+zero";

// tests/data/golden/make_awq.py has the same.
std::vector<int64_t> Ids() {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 400; ++i) ids.push_back((i * i * 7 + 3 * i) % 95 + 1);
  return ids;
}

std::vector<ScoredSequence> Text() {
  const std::vector<int64_t> ids = Ids();
  std::vector<ScoredSequence> text(8);
  for (size_t i = 0; i < ids.size(); ++i) text[i / 50].tokens.push_back(static_cast<int32_t>(ids[i]));
  return text;
}

QuantizeJob JobFor(const char* method, const std::string& golden, const char* plan, const TemporaryFolder& folder) {
  PutIds(folder / "ids.safetensors", 8, Ids());
  return {.model = GoldenFolder(golden),
          .plan = Plan::Parse(plan),
          .out = folder / "q.h5",
          .method = ParseMethod(method),
          .calibration = folder / "ids.safetensors"};
}

void ThrowAt(std::string_view unit, std::string_view now) {
  if (unit == now) Fail("stopped");
}

std::vector<float> LogitsOfText(const std::filesystem::path& path) {
  TokenBatch batch;
  const std::vector<ScoredSequence> text = Text();
  for (size_t i = 0; i < text.size(); ++i) batch.Add(static_cast<int64_t>(i), text[i].tokens);
  Model model(path);
  return LogitsOf(model, batch);
}

TEST(AwqFactorsOfAModel, AreThoseOfTheGoldenSearch) {
  for (const char* golden : {"llama-mha", "diffllama-mha"}) {
    const Safetensors expected(GoldenFolder(golden) / "awq.safetensors");
    Model model(GoldenFolder(golden));
    const std::vector<LayerSmoothing> layers = AwqScalingOf(model, Text(), Plan::Parse(kPlan), {});
    ASSERT_EQ(std::ssize(layers), model.config().layers);
    for (int layer = 0; layer < model.config().layers; ++layer) {
      for (const Site site : FamilyOf(model.config()).smoothed) {
        const std::string key = std::to_string(layer) + "." + std::string(Name(site));
        const std::vector<float> scales = ValuesOf<float>(expected, "scales." + key);
        const auto found = layers[static_cast<size_t>(layer)].find(site);
        const std::vector<float> ones(scales.size(), 1.0f);
        const std::vector<float>& got = found == layers[static_cast<size_t>(layer)].end() ? ones : found->second;
        ASSERT_EQ(got.size(), scales.size()) << golden << " " << key;
        // The inputs of both agree within 2e-5 of the largest, and their means better.
        for (size_t i = 0; i < scales.size(); ++i) EXPECT_NEAR(got[i], scales[i], 1e-4f * scales[i]) << key << " " << i;
      }
    }
  }
}

// The first layer's v_proj, whose input no earlier code has changed: scaled, clipped and rounded as the golden search
// does.
TEST(AwqFactorsOfAModel, AndTheClipsMakeTheGoldenWeights) {
  const TemporaryFolder folder;
  for (const char* golden : {"llama-mha", "diffllama-mha"}) {
    Quantize(JobFor("awq", golden, kPlan, folder), {});
    const Safetensors file(GoldenFolder(golden) / "awq.safetensors");
    const std::vector<float> expected = ValuesOf<float>(file, "rounded.0.v_proj");
    const QuantizedCheckpoint made(folder / "q.h5");
    const QuantizedMatrix& m = made.matrices().at("model.layers.0.self_attn.v_proj.weight");
    ASSERT_EQ(m.out * m.in, std::ssize(expected));
    // What follows may be scaled, too: a llama's o_proj, by the factors of v_proj's outputs.
    std::vector<float> of_output(static_cast<size_t>(m.out), 1.0f), row(static_cast<size_t>(m.in));
    if (file.Find("scales.0.o_proj.in") != nullptr) of_output = ValuesOf<float>(file, "scales.0.o_proj.in");
    int64_t different = 0;
    for (int64_t r = 0; r < m.out; ++r) {
      DequantizeRow(m, r, row.data());
      for (int64_t i = 0; i < m.in; ++i) {
        const float golden_value = expected[static_cast<size_t>(r * m.in + i)] / of_output[static_cast<size_t>(r)];
        different += std::fabs(row[static_cast<size_t>(i)] - golden_value) > m.ScaleOf(r, i / m.group) / 100;
      }
    }
    // Two clips of nearly the same loss may change places: at most a few groups of 16 in 256.
    EXPECT_LE(different, 3 * m.group) << golden;
  }
}

// Every kind of family that can scale inputs, on the text that was searched. A layer's error is what is searched, so a
// model may lose a little more, but not all of them.
TEST(AwqFactorsOfAModel, LowerTheErrorOfCodes) {
  double log_ratio = 0;
  for (const char* golden : {"llama-gqa", "diffllama-gqa", "diff-v1-gqa", "diff-v2-gqa", "motif", "gemma3", "olmo2",
                             "mixtral", "qwen3-gate-element", "gpt-oss", "phi4flash"}) {
    const TemporaryFolder folder;
    const std::vector<float> exact = LogitsOfText(GoldenFolder(golden));
    std::map<std::string, double> lost;
    for (const char* method : {"rtn", "awq"}) {
      QuantizeJob job = JobFor(method, golden, "weights=int4/channel", folder);
      if (!job.method.RoundsByCalibration()) job.calibration = {};
      Quantize(job, {});
      const std::vector<float> logits = LogitsOfText(folder / "q.h5");
      for (size_t i = 0; i < exact.size(); ++i) lost[method] += std::pow(double{logits[i]} - double{exact[i]}, 2);
    }
    EXPECT_LT(lost["awq"], 1.1 * lost["rtn"]) << golden;
    log_ratio += std::log(lost["awq"] / lost["rtn"]);
    EXPECT_NO_THROW(QuantizedCheckpoint(folder / "q.h5").Verify());
  }
  EXPECT_LT(log_ratio / 11, std::log(0.95));
}

TEST(AwqFactorsOfAModel, SameOnAnyNumberOfThreads) {
  Model model(GoldenFolder("mixtral"));
  SetThreads(1);
  const std::vector<LayerSmoothing> one = AwqScalingOf(model, Text(), Plan::Parse(kPlan), {});
  SetThreads(3);
  EXPECT_EQ(AwqScalingOf(model, Text(), Plan::Parse(kPlan), {}), one);
  SetThreads(0);
  EXPECT_TRUE(one[0].contains(Site::kExpertsGateUpIn)) << "experts share an input and its factors";
}

// Killed in the search or behind a layer, then resumed.
TEST(AwqFactorsOfAModel, AnInterruptedJobEndsInTheSameBytes) {
  const TemporaryFolder folder;
  QuantizeJob job = JobFor("awq", "diffllama-gqa", kPlan, folder);
  Quantize(job, {});
  const std::string whole = GetFile(folder / "q.h5");
  for (const char* unit : {"layers searched", "batches"}) {
    std::filesystem::remove(folder / "q.h5");
    EXPECT_THROW(Quantize(job, [&](int64_t, int64_t, const char* now) { ThrowAt(unit, now); }), Error);
    EXPECT_FALSE(std::filesystem::exists(folder / "q.h5"));
    Quantize(job, {});
    EXPECT_EQ(GetFile(folder / "q.h5"), whole) << unit;
    EXPECT_THAT(folder.Names(), testing::UnorderedElementsAre("q.h5", "ids.safetensors"));
  }
}

TEST(AwqFactorsOfAModel, RefusedBeforeTheFirstTensor) {
  const TemporaryFolder folder;
  EXPECT_THAT(Call([&] { Quantize(JobFor("awq", "llama-mha", "weights=int4/tensor", folder), {}); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("as awq+rtn takes it"), HasSubstr("try channel"))));
  EXPECT_THAT(Call([&] { Quantize(JobFor("awq+gptq", "llama-mha", "attn_logits=int8/row", folder), {}); }),
              ThrowsMessage<Error>(HasSubstr("behind an input that a llama model can scale")));
  QuantizeJob job = JobFor("awq", "llama-mha", kPlan, folder);
  job.calibration = {};
  EXPECT_THAT(Call([&] { Quantize(job, {}); }), ThrowsMessage<Error>(HasSubstr("try --calibrate TEXT")));
  EXPECT_THAT(folder.Names(), testing::ElementsAre("ids.safetensors"));
}

TEST(AwqFactorsOfAModel, WhatCannotBeScaledIsRefusedByName) {
  const auto check = [](const char* golden, const char* plan) {
    CheckAwq(LoadConfig(GoldenFolder(golden)), Plan::Parse(plan));
  };
  EXPECT_THAT(Call([&] { check("clip-text", kPlan); }),
              ThrowsMessage<Error>(HasSubstr("awq: got a clip_text_model model")));
  EXPECT_THAT(Call([&] { check("llama-mha", ""); }), ThrowsMessage<Error>(HasSubstr("try weights=int4/channel")));
  // A norm of its own stands between values and o_proj of a differential head.
  EXPECT_THAT(Call([&] { check("diffllama-mha", "o_proj.w=int4/group16"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("'o_proj.w=int4/group16'"), HasSubstr("a diffllama model"),
                                         HasSubstr("q_proj.in, gate_proj.in, down_proj.in"))));
  EXPECT_NO_THROW(check("llama-mha", "o_proj.w=int4/group16"));
}

}  // namespace
}  // namespace tare::awq_step_test
