// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint computes what a folder with the dequantized weights computes, bit for bit; and says who made
// it.
#include "experiments/quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "experiments/model/model.h"
#include "experiments/quantize/weight_sites.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/file/hdf5.h"
#include "quant/file/quantized_checkpoint.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> Logits(Model& model) {
  TokenBatch batch;
  batch.Add(0, std::vector<int32_t>{1, 5, 9, 2, 77, 30});
  model.Forward(batch);
  std::vector<int64_t> rows(6);
  for (int64_t i = 0; i < 6; ++i) rows[i] = i;
  const auto vocabulary = static_cast<size_t>(model.config().vocabulary);
  std::vector<float> logits(6 * vocabulary);
  model.VocabularyLogits(rows, [&](size_t i, const float* row, int) {
    std::copy_n(row, vocabulary, logits.begin() + static_cast<ptrdiff_t>(i * vocabulary));
  });
  return logits;
}

std::vector<float> Logits(const std::filesystem::path& path) {
  Model model(path);
  return Logits(model);
}

// The folder again, in f32, its quantized matrices dequantized.
void WriteDequantized(const std::filesystem::path& folder, const std::string& golden,
                      const std::filesystem::path& quantized) {
  EditedCheckpoint checkpoint(GoldenFolder(golden));
  const QuantizedCheckpoint file(quantized);
  for (const auto& [name, m] : file.matrices()) {
    EditedCheckpoint::Tensor& tensor = checkpoint.tensors.at(name);
    tensor.dtype = DType::kF32;
    tensor.bytes.resize(static_cast<size_t>(4 * m.out * m.in));
    std::vector<float> row(static_cast<size_t>(m.in));
    for (int64_t r = 0; r < m.out; ++r) {
      DequantizeRow(m, r, row.data());
      std::memcpy(tensor.bytes.data() + 4 * r * m.in, row.data(), static_cast<size_t>(4 * m.in));
    }
  }
  checkpoint.Write(folder);
}

TEST(Quantize, TheFileIsAModelOfTheDequantizedWeights) {
  const TemporaryFolder folder;
  for (const char* golden : {"llama-mha", "llama-gqa", "llama-old-config", "diffllama-mha", "diffllama-gqa"}) {
    for (const char* plan :
         {"weights=int8/channel", "weights=int4/group16+mse", "weights=int6/tensor,down_proj.w=f32"}) {
      const QuantizeSummary summary = Quantize({GoldenFolder(golden), Plan::Parse(plan), folder / "q.h5"}, {});
      EXPECT_LT(summary.relative_error, 0.2) << plan;
      EXPECT_LT(summary.bytes_after, summary.bytes_before);
      WriteDequantized(folder / golden, golden, folder / "q.h5");
      EXPECT_EQ(Logits(folder / "q.h5"), Logits(folder / golden)) << golden << " " << plan;
      EXPECT_NO_THROW(QuantizedCheckpoint(folder / "q.h5").Verify());
    }
  }
}

// A plan on the checkpoint and the same plan on the file made by it: what one says of weights, the other holds.
TEST(Quantize, AFileRunsUnderThePlanThatMadeIt) {
  const TemporaryFolder folder;
  const char* plan = "weights=int6/channel,linear_in=int8/token";
  Quantize({GoldenFolder("diffllama-gqa"), Plan::Parse(plan), folder / "q.h5"}, {});
  const auto logits = [&](const std::filesystem::path& path) {
    Model model(path);
    model.PlanLinear(Plan::Parse(plan), LinearArithmetic::kInteger);
    return Logits(model);
  };
  EXPECT_EQ(logits(folder / "q.h5"), logits(GoldenFolder("diffllama-gqa")));
  Model model(folder / "q.h5");
  EXPECT_THAT([&] { model.PlanLinear(Plan::Parse("weights=int4/channel"), LinearArithmetic::kInteger); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'weights=int4/channel'"), HasSubstr("int6"))));
}

TEST(Quantize, SameBytesOnAnyNumberOfThreads) {
  const TemporaryFolder folder;
  std::string first;
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    Quantize({GoldenFolder("diffllama-gqa"), Plan::Parse("weights=int4/group32+mse"), folder / "q.h5"}, {});
    const std::string bytes = GetFile(folder / "q.h5");
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << threads;
  }
  SetThreads(0);
}

TEST(Quantize, BadWeightsLeaveNothingBehind) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  checkpoint.tensors.at("model.layers.1.mlp.up_proj.weight").SetBits(70, 0x7fc00000);
  checkpoint.Write(folder / "m");
  EXPECT_THAT([&] { Quantize({folder / "m", Plan::Parse("weights=int8/channel"), folder / "q.h5"}, {}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("model.layers.1.mlp.up_proj.weight"), HasSubstr("row 1"))));
  EXPECT_THAT(folder.Names(), testing::ElementsAre("m"));
  EXPECT_THAT([&] { Quantize({folder / "m", Plan::Parse("weights=int8/group48"), folder / "q.h5"}, {}); },
              ThrowsMessage<Error>(HasSubstr("group48")));
  EXPECT_THAT(folder.Names(), testing::ElementsAre("m"));
}

TEST(Quantize, FullDiskLeavesNothingBehind) {
  const TemporaryFolder folder;
  {
    const FileSizeLimit limit(20000);
    EXPECT_THROW(Quantize({GoldenFolder("llama-mha"), Plan::Parse("weights=int8/channel"), folder / "q.h5"}, {}),
                 Error);
  }
  EXPECT_TRUE(folder.Names().empty());
}

QuantizeJob Gptq(const std::string& golden, const char* plan, const TemporaryFolder& folder) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 400; ++i) ids.push_back((i * i * 7 + 3 * i) % 120 + 1);
  Hdf5Writer file(folder / "ids.h5");
  file.WriteDataset<int64_t>("input_ids", {8, 50}, ids);
  file.Commit();
  return {.model = GoldenFolder(golden),
          .plan = Plan::Parse(plan),
          .out = folder / "g.h5",
          .method = QuantizeMethod::kGptq,
          .calibration = folder / "ids.h5"};
}

double DistanceOf(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum);
}

TEST(Quantize, GptqIsAModelOfItsOwnAndTheSameOnAnyNumberOfThreads) {
  const TemporaryFolder folder;
  for (const char* golden : {"llama-gqa", "diffllama-mha"}) {
    std::string first;
    for (const int threads : {1, 3}) {
      SetThreads(threads);
      Quantize(Gptq(golden, "weights=int4/group16+mse", folder), {});
      const std::string bytes = GetFile(folder / "g.h5");
      if (first.empty()) first = bytes;
      EXPECT_EQ(bytes, first);
    }
    SetThreads(0);
    const QuantizedCheckpoint file(folder / "g.h5");
    EXPECT_EQ(file.provenance().method, "gptq");
    EXPECT_THAT(file.provenance().calibration, AllOf(HasSubstr("ids.h5"), HasSubstr("400 tokens")));
    const std::vector<float> exact = Logits(GoldenFolder(golden));
    EXPECT_LT(DistanceOf(Logits(folder / "g.h5"), exact), 0.5 * DistanceOf(exact, std::vector<float>(exact.size())));
  }
}

TEST(Quantize, GptqRefusesWhatItCannotDo) {
  const TemporaryFolder folder;
  QuantizeJob job = Gptq("llama-mha", "weights=int4/tensor", folder);
  EXPECT_THAT([&] { Quantize(job, {}); }, ThrowsMessage<Error>(HasSubstr("try channel")));
  job.plan = Plan::Parse("weights=int4/channel");
  job.calibration.clear();
  EXPECT_THAT([&] { Quantize(job, {}); }, ThrowsMessage<Error>(HasSubstr("--calibrate")));
}

TEST(Quantize, AQuantizedModelIsNotQuantizedAgain) {
  const TemporaryFolder folder;
  Quantize({GoldenFolder("llama-mha"), Plan::Parse("weights=int8/channel"), folder / "q.h5"}, {});
  EXPECT_THAT([&] { Quantize({folder / "q.h5", Plan::Parse("weights=int4/channel"), folder / "r.h5"}, {}); },
              ThrowsMessage<Error>(HasSubstr("quantized already")));
}

}  // namespace
}  // namespace tare
