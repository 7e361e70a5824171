// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint computes the same bits as a folder with the dequantized weights, and records its origin.
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
#include "experiments/quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/quantize/round_layers.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/hdf5.h"
#include "quant/file/quantized_checkpoint.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::quantize_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> Logits(Model& model, SiteVisitors visitors = {}) {
  TokenBatch batch;
  batch.Add(0, std::vector<int32_t>{1, 5, 9, 2, 77, 30});
  model.Forward(batch, visitors);
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

// Writes the golden folder with its quantized matrices dequantized to f32.
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
  for (const char* golden : {"llama-mha", "llama-gqa", "llama-old-config", "diffllama-mha", "diffllama-gqa", "qwen2",
                             "mistral", "olmo2", "gemma3", "qwen3-gate-head"}) {
    for (const char* plan : {"weights=int8/channel", "weights=int4/group16+mse", "weights=int6/tensor,down_proj.w=f32",
                             "weights=int4/channel+hadamard8,o_proj.w=nvfp4+hadamard4"}) {
      const QuantizeSummary summary = Quantize({GoldenFolder(golden), Plan::Parse(plan), folder / "q.h5"}, {});
      EXPECT_LT(summary.weight_error, 0.2) << plan;
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
  const auto logits = [](const std::filesystem::path& path, const char* plan) {
    Model model(path);
    model.CarryOut({.plan = {Plan::Parse(plan), ModelSitesOf(model), Carrying::kExecuted}});
    return Logits(model);
  };
  for (const char* plan :
       {"weights=int4/channel+hadamard8,linear_in=int8/token+hadamard8", "weights=int6/channel,linear_in=int8/token"}) {
    Quantize({GoldenFolder("diffllama-gqa"), Plan::Parse(plan), folder / "q.h5"}, {});
    EXPECT_EQ(logits(folder / "q.h5", plan), logits(GoldenFolder("diffllama-gqa"), plan));
  }
  Model model(folder / "q.h5");
  EXPECT_THAT([&] { ResolvedPlan(Plan::Parse("weights=int4/channel"), ModelSitesOf(model), Carrying::kExecuted); },
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

// A checkpoint too large to be kept in floating point: its matrices are made so for each use, and nothing else changes.
TEST(Quantize, CodesThatAreNotKeptInFloatingPointGiveTheSameLogits) {
  for (const char* golden : {"diffllama-gqa", "qwen3-gate-head", "diff-v2-gqa"}) {
    const TemporaryFolder folder;
    Quantize({GoldenFolder(golden), Plan::Parse("weights=int4/channel"), folder / "q.h5"}, {});
    const TokenBatch batch = GoldenBatch(golden);
    for (const Math math : {Math::kF32, HasProducts(Math::kBf16) ? Math::kBf16 : Math::kF32}) {
      Model kept(folder / "q.h5", math), made(folder / "q.h5", math, {.converted = 0});
      EXPECT_NE(kept.layers()[0].q.stored().values.data, nullptr);
      EXPECT_EQ(made.layers()[0].q.stored().values.data, nullptr);
      EXPECT_EQ(LogitsOf(made, batch), LogitsOf(kept, batch)) << golden;
      std::vector<float> a(static_cast<size_t>(kept.layers()[1].down.stored().in)), b = a;
      if (math == Math::kBf16) continue;
      RowAsFloat(kept.layers()[1].down.stored(), 3, a.data());
      RowAsFloat(made.layers()[1].down.stored(), 3, b.data());
      EXPECT_EQ(a, b);
    }
  }
}

TEST(Quantize, BadWeightsLeaveNothingBehind) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  checkpoint.tensors.at("model.layers.1.mlp.up_proj.weight").SetBits(70, 0x7fc00000);
  checkpoint.Write(folder / "m");
  EXPECT_THAT([&] { Quantize({folder / "m", Plan::Parse("weights=int8/channel"), folder / "q.h5"}, {}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("model.layers.1.mlp.up_proj.weight"), HasSubstr("index 70"))));
  EXPECT_THAT(folder.Names(), testing::ElementsAre("m"));
  EXPECT_THAT([&] { Quantize({GoldenFolder("llama-mha"), Plan::Parse("weights=int8/group48"), folder / "q.h5"}, {}); },
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

double DistanceOf(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum);
}

TEST(Quantize, CalibratedMethodsMakeTheSameModelOnAnyNumberOfThreads) {
  const TemporaryFolder folder;
  for (const auto& [golden, method] : {std::pair{"llama-gqa", "awq+gptq"},
                                       {"diffllama-mha", "gptq+quantease"},
                                       {"diffllama-gqa", "gptaq"},
                                       {"llama-gqa", "cayley:3+rtn"},
                                       {"diffllama-gqa", "autoround:5"},
                                       {"llama-mha", "rtn+quantease"}}) {
    std::string first;
    for (const int threads : {1, 3}) {
      SetThreads(threads);
      Quantize(Calibrated(method, golden, "weights=int4/group16+mse,down_proj.w=int4/group16+hadamard4", folder), {});
      const std::string bytes = GetFile(folder / "g.h5");
      if (first.empty()) first = bytes;
      EXPECT_EQ(bytes, first);
    }
    SetThreads(0);
    const QuantizedCheckpoint file(folder / "g.h5");
    EXPECT_EQ(file.provenance().method, method);
    EXPECT_THAT(file.provenance().calibration, AllOf(HasSubstr("ids.h5"), HasSubstr("400 tokens")));
    const std::vector<float> exact = Logits(GoldenFolder(golden));
    EXPECT_LT(DistanceOf(Logits(folder / "g.h5"), exact), 0.5 * DistanceOf(exact, std::vector<float>(exact.size())));
  }
}

TEST(Quantize, GptqRefusesUnsupportedRules) {
  const TemporaryFolder folder;
  QuantizeJob job = Calibrated("gptq", "llama-mha", "weights=int4/tensor", folder);
  EXPECT_THAT([&] { Quantize(job, {}); }, ThrowsMessage<Error>(HasSubstr("try channel")));
  job.plan = Plan::Parse("weights=int4/channel");
  job.calibration = {};
  EXPECT_THAT([&] { Quantize(job, {}); }, ThrowsMessage<Error>(HasSubstr("--calibrate")));
}

TEST(Quantize, AQuantizedModelIsNotQuantizedAgain) {
  const TemporaryFolder folder;
  Quantize({GoldenFolder("llama-mha"), Plan::Parse("weights=int8/channel"), folder / "q.h5"}, {});
  EXPECT_THAT([&] { Quantize({folder / "q.h5", Plan::Parse("weights=int4/channel"), folder / "r.h5"}, {}); },
              ThrowsMessage<Error>(HasSubstr("is already quantized")));
}

// Logits of the same function: f32's rounding through a few layers, relative to their size.
void ExpectSameFunction(const std::filesystem::path& a, const std::filesystem::path& b, double tolerance) {
  const std::vector<float> x = Logits(a), y = Logits(b);
  EXPECT_LT(DistanceOf(x, y), tolerance * DistanceOf(x, std::vector<float>(x.size()))) << b;
}

TEST(Quantize, EquivalentWeightsComputeTheSame) {
  for (const char* golden : kGoldenCheckpoints) {
    for (const std::string method : {"hadamard:5", "smoothquant:0.5"}) {
      const TemporaryFolder folder;
      if (method.starts_with("hadamard") && FamilyOf(LoadConfig(GoldenFolder(golden))).rotation == Rotation::kNone) {
        EXPECT_THAT([&] { Quantize(Calibrated(method, golden, "", folder), {}); },
                    ThrowsMessage<Error>(HasSubstr("linear layers alone")));
        continue;
      }
      Quantize(Calibrated(method, golden, "", folder), {});
      ExpectSameFunction(GoldenFolder(golden), folder / "g.h5", 1e-5);
      EXPECT_EQ(QuantizedCheckpoint(folder / "g.h5").provenance().method, method);
      EXPECT_NE(Logits(folder / "g.h5"), Logits(GoldenFolder(golden))) << "nothing changed";
    }
  }
}

// A file without codes is a model to start from; doing both at once is the same.
TEST(Quantize, StepsOneByOneAreTheMethodInOne) {
  const TemporaryFolder folder;
  Quantize(Calibrated("hadamard", "diffllama-gqa", "", folder), {});
  QuantizeJob second = Calibrated("gptq+quantease", "diffllama-gqa", "weights=int4/group16", folder);
  second.model = folder / "g.h5";
  second.out = folder / "two.h5";
  Quantize(second, {});
  QuantizeJob both = Calibrated("hadamard+gptq+quantease", "diffllama-gqa", "weights=int4/group16", folder);
  both.out = folder / "one.h5";
  Quantize(both, {});
  EXPECT_EQ(GetFile(folder / "one.h5"), GetFile(folder / "two.h5"));
  const Provenance provenance = QuantizedCheckpoint(folder / "one.h5").provenance();
  EXPECT_EQ(provenance.method, "hadamard+gptq+quantease");
  EXPECT_EQ(provenance.source, "diffllama-gqa");
  EXPECT_THAT(folder.Names(), testing::UnorderedElementsAre("g.h5", "ids.h5", "one.h5", "two.h5"));
}

// An outlier in one channel of the residual stream: a rotation spreads it, smoothing moves it into the weights.
TEST(Quantize, RotationAndSmoothingHelpWhereThereAreOutliers) {
  const TemporaryFolder folder;
  for (const char* golden : {"llama-gqa", "diffllama-gqa"}) {
    EditedCheckpoint checkpoint(GoldenFolder(golden));
    EditedCheckpoint::Tensor& embedding = checkpoint.tensors.at("model.embed_tokens.weight");
    const auto hidden = static_cast<size_t>(embedding.shape[1]);
    for (size_t token = 0; token < static_cast<size_t>(embedding.shape[0]); ++token) {
      const auto bits = std::bit_cast<uint32_t>(32 * embedding.Value(token * hidden + 3));
      embedding.SetBits(token * hidden + 3, embedding.dtype == DType::kF32 ? bits : bits >> 16);  // bf16
    }
    checkpoint.Write(folder / golden);
    const std::vector<float> exact = Logits(folder / golden);
    const auto distance = [&](const std::filesystem::path& path) {
      Model model(path);
      PlanRun run(Plan::Parse("q_proj.in[l0]=int8/token,k_proj.in[l0]=int8/token,v_proj.in[l0]=int8/token"),
                  Carrying::kSimulated, ModelSitesOf(model));
      return DistanceOf(Logits(model, run.Begin(model)), exact);
    };
    for (const char* method : {"hadamard", "smoothquant:0.5"}) {
      QuantizeJob job = Calibrated(method, golden, "", folder);
      job.model = folder / golden;
      Quantize(job, {});
      EXPECT_LT(distance(folder / "g.h5"), 0.5 * distance(folder / golden)) << golden << " " << method;
    }
  }
}

// The search never does worse than no smoothing on what it looks at, and here there is something to gain.
TEST(Quantize, SearchedSmoothingLowersTheErrorOfCodes) {
  const TemporaryFolder folder;
  for (const char* golden : {"llama-gqa", "diffllama-gqa"}) {
    const std::vector<float> exact = Logits(GoldenFolder(golden));
    std::map<std::string, double> distance;
    for (const char* method : {"rtn", "smoothquant+rtn"}) {
      const QuantizeJob job = Calibrated(method, golden, "weights=int4/channel,linear_in=int4/token", folder);
      Quantize(job, {});
      Model model(folder / "g.h5");
      model.CarryOut({.plan = {job.plan, ModelSitesOf(model), Carrying::kExecuted}});
      distance[method] = DistanceOf(Logits(model), exact);
    }
    EXPECT_LT(distance["smoothquant+rtn"], distance["rtn"]) << golden;
  }
}

// The file keeps what a plan's static scales need: executed from it alone it is the simulated plan with the statistics.
TEST(Quantize, StaticScalesGoWithTheFile) {
  const TemporaryFolder folder;
  for (const char* golden : {"llama-gqa", "diffllama-gqa"}) {
    QuantizeJob job = Calibrated("rtn", golden, "weights=int8/channel,linear_in=int8/tensor+static", folder);
    EXPECT_THAT([&] { Quantize(job, {}); }, ThrowsMessage<Error>(HasSubstr("try --stats")));
    Model stored(job.model);
    const TokenInput ids = LoadTokenInput(folder / "ids.h5", job.model, stored.config().vocabulary);
    job.statistics = folder / "s.h5";
    CollectStatistics(stored, ids, CutDisjoint(ids, stored.config(), {}), {.sites = "linear_in"}, "1", job.statistics,
                      {});
    Quantize(job, {});
    const auto logits = [&](const std::filesystem::path& path, const char* plan, Carrying carrying,
                            const std::filesystem::path& statistics) {
      Model model(path);
      PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model), StaticSourceOf(statistics, model.files()));
      return Logits(model, run.Begin(model));
    };
    const char* plan = "weights=int8/channel,linear_in=int8/tensor+static";
    const std::vector<float> simulated = logits(job.model, plan, Carrying::kSimulated, job.statistics),
                             executed = logits(job.out, plan, Carrying::kExecuted, ""), exact = Logits(job.model);
    // Both have the same codes, except where f32's rounding of sums moves one across a tie.
    EXPECT_LT(DistanceOf(executed, simulated), 0.2 * DistanceOf(executed, exact)) << golden;
    EXPECT_EQ(executed, logits(job.model, plan, Carrying::kExecuted, job.statistics));
    EXPECT_THAT([&] { logits(job.out, "linear_in=int6/tensor+static", Carrying::kExecuted, ""); },
                ThrowsMessage<Error>(HasSubstr("the model keeps no static scale")));
    EXPECT_THAT([&] { logits(job.out, plan, Carrying::kExecuted, job.statistics); },
                ThrowsMessage<Error>(HasSubstr("statistics of weights")));
    job.method = ParseMethod("hadamard+rtn");
    EXPECT_THAT([&] { Quantize(job, {}); }, ThrowsMessage<Error>(HasSubstr("in two steps")));
  }
}

// A job killed after any layer, or after the rotation, ends in the same bytes when it is resumed.
TEST(Quantize, AnInterruptedJobEndsInTheSameBytes) {
  const TemporaryFolder folder;
  for (const char* method : {"hadamard+gptq", "hadamard+autoround:3"}) {
    const QuantizeJob job = Calibrated(method, "llama-gqa", "weights=int4/group16", folder);
    Quantize(job, {});
    const std::string whole = GetFile(folder / "g.h5");
    const int layers = LoadConfig(job.model).layers;
    for (int stop = 0; stop <= layers; ++stop) {
      SCOPED_TRACE(testing::Message() << method << " " << stop);
      const std::string part = stop == 0 ? "prepared.h5" : Formatted("layer-{}.h5", stop - 1);
      ExpectSameBytesAfter(StopOnce(folder / ("g.h5.parts/" + part)), job, whole, folder);
    }
  }
}

TEST(Quantize, ResumingAnotherJobIsRefused) {
  const TemporaryFolder folder;
  QuantizeJob job = Calibrated("gptq", "llama-gqa", "weights=int4/group16", folder);
  EXPECT_THROW(Quantize(job, StopOnce(folder / "g.h5.parts/layer-0.h5")), Error);
  job.plan = Plan::Parse("weights=int4/group8");
  EXPECT_THAT(
      [&] { Quantize(job, {}); },
      ThrowsMessage<Error>(HasSubstr(
          "layer-0.h5: is of another job: --plan was 'weights=int4/group16', is 'weights=int4/group8'; try --fresh")));
  job.plan = Plan::Parse("weights=int4/group16");
  job.windows.window = 10;  // the same ids, cut in another way
  EXPECT_THAT([&] { Quantize(job, {}); },
              ThrowsMessage<Error>(HasSubstr("layer-0.h5: is of another job: --calibrate was 'ids.h5, 400 tokens in 8 "
                                             "windows', is 'ids.h5, 400 tokens in 40 windows'; try --fresh")));
  job.windows.window = 0;
  {  // one that says it is of this job, and is not
    const std::filesystem::path part = folder / "g.h5.parts" / "layer-0.h5";
    const Provenance provenance = QuantizedCheckpoint(part).provenance();
    const std::string config(*QuantizedCheckpoint(part).File("config.json"));
    QuantizedCheckpointWriter forged(part, provenance);
    forged.AddFile("config.json", config);
    forged.Commit();
  }
  EXPECT_THAT([&] { Quantize(job, {}); }, ThrowsMessage<Error>(HasSubstr("the saved layer 0 does not match")));
  job.fresh = true;
  EXPECT_NO_THROW(Quantize(job, {}));
}

TEST(Quantize, MissingInputsAreRefusedBeforeTheFirstTensor) {
  const TemporaryFolder folder;
  QuantizeJob job = Calibrated("smoothquant+rtn", "llama-mha", "weights=int8/channel", folder);
  job.calibration = {};
  EXPECT_THAT([&] { Quantize(job, {}); }, ThrowsMessage<Error>(HasSubstr("--calibrate")));
  EXPECT_THAT([&] { Quantize(Calibrated("hadamard", "llama-mha", "weights=int8/channel", folder), {}); },
              ThrowsMessage<Error>(HasSubstr("try hadamard+rtn")));
  EXPECT_THAT([&] { Quantize(Calibrated("smoothquant", "llama-mha", "", folder), {}); },
              ThrowsMessage<Error>(HasSubstr("try smoothquant:0.5")));
  const char* const floats = "weights=int8/channel,linear_in=fp8e4m3/token";
  EXPECT_THAT([&] { Quantize(Calibrated("smoothquant+rtn", "llama-mha", floats, folder), {}); },
              ThrowsMessage<Error>(HasSubstr("got fp8e4m3, expected an integer format, for which alpha is searched")));
  EXPECT_THAT([&] { Quantize(Calibrated("rtn+quantease", "llama-mha", "weights=int4/tensor", folder), {}); },
              ThrowsMessage<Error>(HasSubstr("try channel")));
  EXPECT_THAT(folder.Names(), testing::ElementsAre("ids.h5"));
}

}  // namespace
}  // namespace tare::quantize_test
