// SPDX-License-Identifier: Apache-2.0
// What learning promises, on whole models. Its parts against references: rotated_error_test.cc and
// channel_transforms_test.cc.
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
#include "experiments/quantize/steps/rotated_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/config/config.h"
#include "experiments/model/linear/weights.h"
#include "experiments/quantize/equivalent_weights.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::rotations_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<ScoredSequence> Text() {
  std::vector<ScoredSequence> text(4);
  for (int s = 0; s < 4; ++s) {
    for (int i = 0; i < 50; ++i) text[static_cast<size_t>(s)].tokens.push_back((7 * i * i + 31 * s) % 95 + 1);
  }
  return text;
}

// The golden model after its Hadamard rotation.
class RotatedModel {
 public:
  explicit RotatedModel(const char* golden) {
    const auto from = GoldenFolder(golden);
    const std::filesystem::path path = folder_ / "r.h5";
    const ModelConfig config = LoadConfig(from);
    const Checkpoint files = OpenSplit(from, config);
    WriteEquivalent(files, from, Rotated(files, config, 0), {.plan = "f32"}, path, {});
    model_.emplace(path);
  }
  RotatedError Error(const char* plan) { return {*model_, Text(), Plan::Parse(plan), {}}; }

 private:
  TemporaryFolder folder_;
  std::optional<Model> model_;
};

void ExpectOrthogonal(int64_t n, const std::vector<double>& q, double bound) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < n; ++r) sum += q[static_cast<size_t>(r * n + i)] * q[static_cast<size_t>(r * n + j)];
      ASSERT_NEAR(sum, i == j, bound);
    }
  }
}

// The best that was seen: no worse than the start in so few steps that all are too long, better in more. It is
// orthogonal to double's rounding of n products in each step, and its error is the one that is said. A layer's values
// turn, too.
TEST(LearnedRotation, IsTheBestThatWasSeen) {
  for (const char* golden : {"llama-gqa", "diffllama-gqa", "mixtral"}) {
    RotatedModel model(golden);
    for (const char* plan :
         {"weights=int4/group16", "weights=int2/group16+min", "weights=e8p/group16", "weights=mxfp4"}) {
      RotatedError error = model.Error(plan);
      for (const int steps : {1, 30}) {
        const LearnedRotation learned = LearnRotation(error, steps, {});
        EXPECT_LE(learned.least, (steps < 30 ? 1 : 0.97) * learned.first) << golden << " " << plan;
        ASSERT_EQ(learned.rotations.size(), error.sizes().size());
        for (size_t i = 0; i < error.sizes().size(); ++i) {
          const int64_t n = error.sizes()[i];
          ExpectOrthogonal(n, learned.rotations[i], static_cast<double>(steps * n) * 0x1p-53);
          EXPECT_TRUE(steps < 30 || learned.rotations[i][0] < 1) << "rotation " << i << " has not turned";
        }
        std::vector<std::vector<double>> gradients;
        EXPECT_EQ(error.At(learned.rotations, gradients), learned.least);
      }
    }
  }
}

TEST(LearnedRotation, SameOnAnyNumberOfThreads) {
  for (const char* golden : {"diffllama-gqa", "mixtral"}) {
    RotatedModel model(golden);
    std::vector<std::vector<double>> first;
    for (const int threads : {1, 3}) {
      SetThreads(threads);
      RotatedError error = model.Error("weights=int4/group16");
      const LearnedRotation learned = LearnRotation(error, 3, {});
      if (first.empty()) first = learned.rotations;
      EXPECT_EQ(learned.rotations, first) << golden << " " << threads;
    }
    SetThreads(0);
  }
}

std::vector<float> LogitsOfText(const std::filesystem::path& path) {
  TokenBatch batch;
  for (size_t i = 0; i < 4; ++i) batch.Add(static_cast<int64_t>(i), Text()[i].tokens);
  Model model(path);
  return LogitsOf(model, batch);
}

double Norm(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

// What v_proj's inputs turn by keeps these norms; what its outputs turn by does not.
std::vector<float> ValueRowNorms(const std::filesystem::path& path) {
  const Model model(path);
  const WeightMatrix& v = model.layers()[0].v.stored();
  std::vector<float> row(static_cast<size_t>(v.in)), norms;
  for (int64_t r = 0; r < v.out; ++r) {
    RowAsFloat(v, r, row.data());
    norms.push_back(static_cast<float>(Norm(row, std::vector<float>(row.size()))));
  }
  return norms;
}

// f32's rounding through a few layers is all that differs from the source. The file says what was learned from what.
TEST(LearnedRotation, ComputesTheSame) {
  for (const char* golden : kGoldenCheckpoints) {
    const TemporaryFolder folder;
    const QuantizeJob job = Calibrated("cayley:3:5", golden, "weights=int4/channel", folder);
    const Family family = FamilyOf(LoadConfig(job.model));
    if (family.rotation == Rotation::kNone || family.centres) {
      EXPECT_THAT([&] { Quantize(job, {}); },
                  ThrowsMessage<Error>(HasSubstr(family.centres ? "whose norms subtract no mean; try hadamard"
                                                                : "linear layers alone")));
      continue;
    }
    const QuantizeSummary summary = Quantize(job, {});
    EXPECT_EQ(summary.calibration.size(), 1u);
    const std::vector<float> exact = LogitsOfText(job.model), learned = LogitsOfText(job.out);
    EXPECT_LT(Norm(learned, exact), 1e-5 * Norm(exact, std::vector<float>(exact.size()))) << golden;
    const Provenance provenance = QuantizedCheckpoint(job.out).provenance();
    EXPECT_EQ(provenance.method, "cayley:3:5");
    EXPECT_THAT(provenance.calibration, AllOf(HasSubstr("ids.h5"), HasSubstr("for weights=int4/channel")));
    EXPECT_THAT(folder.Names(), testing::UnorderedElementsAre("g.h5", "ids.h5"));
    QuantizeJob first = job;
    first.plan = Plan::Parse("");
    first.method = ParseMethod("hadamard:5");
    first.calibration = {};
    Quantize(first, {});
    EXPECT_NE(LogitsOfText(job.out), learned) << "nothing learned";
    const std::filesystem::path only_hadamard = folder / "h.h5";
    std::filesystem::rename(job.out, only_hadamard);
    Quantize(job, {});
    const bool turns_values = RotatedValues(LoadConfig(job.model)).size > 0;
    EXPECT_EQ(Norm(ValueRowNorms(job.out), ValueRowNorms(only_hadamard)) > 1e-3, turns_values) << golden;
  }
}

// Killed while a rotation is learned, or behind it.
TEST(LearnedRotation, AnInterruptedJobEndsInTheSameBytes) {
  const TemporaryFolder folder;
  const QuantizeJob job = Calibrated("cayley:3+gptq", "diffllama-gqa", "weights=int4/group16", folder);
  Quantize(job, {});
  const std::string whole = GetFile(folder / "g.h5");
  for (const std::string_view unit : {"layers seen", "steps", "batches"}) {
    SCOPED_TRACE(unit);
    ExpectSameBytesAfter([&](int64_t, int64_t, const char* now) { unit == now ? Fail("stopped") : void(); }, job, whole,
                         folder);
  }
}

// Weights without codes: what is left is the file, or nothing; another job's parts stay.
TEST(LearnedRotation, AloneItLeavesNothingBesideItsFile) {
  const TemporaryFolder folder;
  QuantizeJob job = Calibrated("cayley:2", "diffllama-gqa", "weights=int4/group16", folder);
  const auto stopped = [](int64_t, int64_t, const char* now) {
    std::string_view(now) == "steps" ? Fail("no") : void();
  };
  EXPECT_THROW(Quantize(job, stopped), Error);
  EXPECT_THAT(folder.Names(), testing::ElementsAre("ids.h5"));
  Quantize(job, {});
  EXPECT_THAT(folder.Names(), testing::UnorderedElementsAre("g.h5", "ids.h5"));

  std::filesystem::create_directory(folder / "g.h5.parts");
  std::filesystem::rename(folder / "g.h5", folder / "g.h5.parts/prepared.h5");
  Quantize(job, {});
  EXPECT_TRUE(std::filesystem::exists(folder / "g.h5.parts/prepared.h5"));
}

TEST(LearnedRotation, RefusedBeforeTheFirstTensor) {
  const TemporaryFolder folder;
  QuantizeJob job = Calibrated("cayley+rtn", "llama-mha", "weights=int4/channel", folder);
  job.calibration = {};
  EXPECT_THAT(Call([&] { Quantize(job, {}); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("cayley+rtn"), HasSubstr("try --calibrate TEXT"))));
  EXPECT_THAT(Call([&] { Quantize(Calibrated("cayley", "llama-mha", "", folder), {}); }),
              ThrowsMessage<Error>(HasSubstr("cayley: got the plan 'f32'")));
  EXPECT_THAT(folder.Names(), testing::ElementsAre("ids.h5"));
}

}  // namespace
}  // namespace tare::rotations_test
