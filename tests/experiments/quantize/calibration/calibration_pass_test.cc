// SPDX-License-Identifier: Apache-2.0
// Second moments against sums from a visitor of a whole forward pass; residual streams against that pass.
#include "experiments/quantize/calibration/calibration_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory_resource>
#include <mutex>
#include <numeric>

#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/mapped_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::calibration_pass_test {
namespace {

std::vector<ScoredSequence> Sequences() {
  std::vector<ScoredSequence> sequences;
  for (int s = 0; s < 3; ++s) {
    ScoredSequence& one = sequences.emplace_back();
    for (int i = 0; i < 20 + s; ++i) one.tokens.push_back((7 * i + 31 * s) % 120 + 1);
  }
  return sequences;
}

// Sums of x x^T in double, row by row.
class SlowMoments : public SiteVisitor {
 public:
  SlowMoments(Site site, int layer) : site_(site), layer_(layer) {}
  bool Wants(Site site, std::optional<int> layer) const override { return site == site_ && layer == layer_; }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex_);
    for (int64_t r = 0; r < block.rows; ++r) {
      const std::span<const float> x = block.Row(r);
      sums.resize(x.size() * x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        for (size_t j = 0; j < x.size(); ++j) sums[i * x.size() + j] += double{x[i]} * x[j];
      }
    }
  }
  std::vector<double> sums;

 private:
  Site site_;
  int layer_;
  std::mutex mutex_;
};

TEST(CalibrationPass, MomentsAreTheSumsOfTheForwardPass) {
  for (const char* golden : {"llama-gqa", "diffllama-mha"}) {
    Model model(GoldenFolder(golden));
    CalibrationPass calibration(model, Sequences());
    EXPECT_EQ(calibration.tokens(), 63);
    TokenBatch batch;
    for (size_t i = 0; i < 3; ++i) batch.Add(static_cast<int64_t>(i), Sequences()[i].tokens);
    for (int layer = 0; layer < model.config().layers; ++layer) {
      for (const Site site : kCalibratedInputs) {
        if (!ModelSitesOf(model.config()).Has(site)) continue;
        const SecondMoments m = calibration.MomentsOf(layer, site);
        SlowMoments slow(site, layer);
        SiteVisitor* const visitors[] = {&slow};
        model.Forward(batch, visitors);
        ASSERT_EQ(m.values.size(), slow.sums.size());
        for (int64_t i = 0; i < m.in; ++i) {
          for (int64_t j = i; j < m.in; ++j) {
            const double size = std::sqrt(slow.sums[i * m.in + i] * slow.sums[j * m.in + j]);
            ASSERT_NEAR(m.values[i * m.in + j], slow.sums[i * m.in + j], 70 * 0x1p-23 * size) << golden << layer;
          }
        }
      }
      calibration.Advance(layer);
    }
  }
}

// A model whose values overflow is named with the place, not the text.
TEST(CalibrationPass, ValuesBeyondF32AreNamed) {
  EditedCheckpoint golden(GoldenFolder("llama-gqa"));
  EditedCheckpoint::Tensor& weight = golden.tensors.at("model.layers.0.self_attn.v_proj.weight");
  for (size_t i = 0; i < 64; ++i) weight.SetBits(i, std::bit_cast<uint32_t>(1e30f));
  const TemporaryFolder folder;
  golden.Write(folder / "huge");
  Model model(folder / "huge");
  CalibrationPass calibration(model, Sequences());
  calibration.MomentsOf(0, Site::kQProjIn);
  EXPECT_THAT([&] { calibration.MomentsOf(0, Site::kOProjIn); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "calibration, layer 0, o_proj.in: got values whose squares are beyond f32, or NaN")));
}

// With one layer rounded, what the next one sees has moved from what the model as stored sees.
TEST(CalibrationPass, CrossMomentsAreTheSumsOfWhatWasLost) {
  Model rounded(GoldenFolder("diffllama-gqa")), stored(GoldenFolder("diffllama-gqa"));
  CalibrationPass calibration(rounded, Sequences()), exact(stored, Sequences());
  for (const Site site : kCalibratedInputs) {
    if (!ModelSitesOf(stored.config()).Has(site)) continue;
    const SecondMoments m = calibration.MomentsOf(0, site, &exact);
    EXPECT_EQ(m.cross, std::vector<float>(m.values.size(), 0.0f)) << Name(site);
  }
  rounded.CarryOut({.plan = {Plan::Parse("weights[l0]=int4/channel"), ModelSitesOf(rounded), Carrying::kSimulated}});
  calibration.Advance(0);
  exact.Advance(0);
  const Site site = Site::kOProjIn;
  const SecondMoments m = calibration.MomentsOf(1, site, &exact);
  const CaughtInputs x = std::move(calibration.InputsOf(0, 1, {&site, 1}).at(site)),
                     y = std::move(exact.InputsOf(0, 1, {&site, 1}).at(site));
  ASSERT_EQ(calibration.batches(), 1u);
  double largest = 0;
  for (int64_t i = 0; i < x.channels; ++i) {
    for (int64_t j = 0; j < x.channels; ++j) {
      double sum = 0, size = 0;
      for (int64_t t = 0; t < x.tokens; ++t) {
        const double term = (double{y.values[i * x.tokens + t]} - double{x.values[i * x.tokens + t]}) *
                            double{x.values[j * x.tokens + t]};
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(m.cross[i * x.channels + j], sum, 70 * 0x1p-23 * size);
      largest = std::max(largest, std::abs(sum));
    }
  }
  EXPECT_GT(largest, 1e-3);
}

std::vector<ScoredSequence> OfNinety() {
  std::vector<ScoredSequence> sequences = Sequences();
  for (ScoredSequence& s : sequences) {
    for (int32_t& token : s.tokens) token %= 90;
  }
  return sequences;
}

bool HasInput(const ModelConfig& config, int layer, Site input) {
  return std::ranges::contains(LinearOf(FamilyOf(config), config, layer), input,
                               [](const LinearPlace& place) { return InputOf(place); });
}

// Moments on the way leave the layer's result as it is, and so do what was asked for and states on a disk.
TEST(CalibrationPass, GoesOnFromTheInputsThatWereAskedFor) {
  const TemporaryFolder folder;
  DiskMemory disk(folder.path());
  for (const char* golden : {"diffllama-gqa", "olmo2", "qwen3-gate-head", "phi4flash", "mixtral"}) {
    Model model(GoldenFolder(golden));
    for (const std::vector<Site>& asked :
         {std::vector{Site::kQProjIn, Site::kOProjIn, Site::kGateProjIn, Site::kDownProjIn},
          {Site::kOProjIn},
          {Site::kGateProjIn, Site::kDownProjIn},
          {Site::kOProjIn, Site::kDownProjIn}}) {
      CalibrationPass plain(model, OfNinety()), stopping(model, OfNinety(), disk);
      for (int layer = 0; layer + 1 < model.config().layers; ++layer) {
        for (const Site site : asked) {
          if (ModelSitesOf(model.config()).Has(site) && HasInput(model.config(), layer, site))
            stopping.MomentsOf(layer, site);
        }
        plain.Advance(layer);
        stopping.Advance(layer);
        const Site next = Site::kGateProjIn;
        if (!HasInput(model.config(), layer + 1, next)) continue;
        const CaughtInputs a = std::move(plain.InputsOf(0, layer + 1, {&next, 1}).at(next)),
                           b = std::move(stopping.InputsOf(0, layer + 1, {&next, 1}).at(next));
        EXPECT_TRUE(std::ranges::equal(a.values.span(), b.values.span())) << golden << ' ' << layer;
      }
    }
  }
}

// Memory of the heap that remembers how much was asked for.
class AskedMemory : public std::pmr::memory_resource {
 public:
  std::vector<size_t> asked;

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    asked.push_back(bytes);
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* p, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(p, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

// A disk without room shows before the first layer, not in a later one.
TEST(CalibrationPass, TakesTheRoomOfAllLayersAtOnce) {
  for (const char* golden : {"llama-gqa", "diffllama-gqa", "olmo2", "qwen3-gate-head", "mixtral"}) {
    Model model(GoldenFolder(golden));
    const ModelConfig& config = model.config();
    AskedMemory memory;
    CalibrationPass calibration(model, OfNinety(), memory);
    for (int layer = 0; layer < config.layers; ++layer) {
      for (const Site site : {Site::kQProjIn, Site::kOProjIn, Site::kGateProjIn, Site::kDownProjIn}) {
        if (HasInput(config, layer, site)) calibration.MomentsOf(layer, site);
      }
      calibration.Advance(layer);
    }
    ASSERT_EQ(memory.asked.size(), 1u) << golden;
    const int64_t channels = config.StreamWidth() + std::max<int64_t>(config.hidden, AttendedWidth(config)),
                  values = calibration.tokens() * channels;
    EXPECT_GE(memory.asked.front(), static_cast<size_t>(values) * 4);
    EXPECT_LE(memory.asked.front(), static_cast<size_t>(values) * 4 + 1024);
  }
}

// OnBatch reports each batch once in every pass.
TEST(CalibrationPass, TellsOfEachBatch) {
  Model model(GoldenFolder("llama-gqa"));
  CalibrationPass calibration(model, Sequences());
  size_t batches = 0;
  calibration.OnBatch([&] { ++batches; });
  calibration.MomentsOf(0, Site::kQProjIn);
  EXPECT_EQ(batches, calibration.batches());
  calibration.Advance(0);
  EXPECT_EQ(batches, 2 * calibration.batches());
}

// sum of y x^T over the choices of an expert, and of its terms' magnitudes; y may lack some.
void ExpectMoments(const std::vector<float>& got, const CaughtInputs& x, const CaughtInputs& y, bool lost, Site site,
                   int expert) {
  const int64_t per_input = site == Site::kExpertsDownIn ? 1 : 2;
  for (int64_t i = 0; i < x.channels; ++i) {
    for (int64_t j = lost ? 0 : i; j < x.channels; ++j) {  // else only the upper triangle means anything
      double sum = 0, size = 0;
      for (int64_t c = 0; c < std::ssize(x.chosen); ++c) {
        if (x.chosen[c] != expert) continue;
        int64_t there = c / per_input;
        if (site == Site::kExpertsDownIn) {  // the same token's rank of this expert in y
          const int64_t token = c / 2 * 2;
          there = y.chosen[token] == expert ? token : y.chosen[token + 1] == expert ? token + 1 : -1;
          if (there < 0) continue;
        }
        const double before = lost ? x.values[i * x.tokens + c / per_input] : 0.0f,
                     term = (y.values[i * y.tokens + there] - before) * x.values[j * x.tokens + c / per_input];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(got[i * x.channels + j], sum, 70 * 0x1p-23 * size) << Name(site) << ' ' << expert;
    }
  }
}

// An expert's moments are over the tokens that chose it; with layer 0 rounded, some choose others than when stored.
TEST(CalibrationPass, MomentsOfExpertsAreOfTheTokensThatReachThem) {
  Model rounded(GoldenFolder("gpt-oss")), stored(GoldenFolder("gpt-oss"));
  CalibrationPass calibration(rounded, OfNinety()), exact(stored, OfNinety());
  rounded.CarryOut({.plan = {Plan::Parse("weights[l0]=int4/channel"), ModelSitesOf(rounded), Carrying::kSimulated}});
  const std::vector<int64_t> reached = calibration.Advance(0);
  EXPECT_EQ(std::accumulate(reached.begin(), reached.end(), int64_t{0}), 2 * 63);
  exact.Advance(0);
  bool others = false;
  for (const Site site : {Site::kExpertsGateUpIn, Site::kExpertsDownIn}) {
    const CaughtInputs x = std::move(calibration.InputsOf(0, 1, {&site, 1}).at(site)),
                       y = std::move(exact.InputsOf(0, 1, {&site, 1}).at(site));
    ASSERT_EQ(x.chosen.size(), 2u * 63);
    others |= x.chosen != y.chosen;
    std::vector<SecondMoments> all = calibration.MomentsOfExperts(1, site, 0, 3, &exact);
    for (SecondMoments& m : calibration.MomentsOfExperts(1, site, 3, 2, &exact)) all.push_back(std::move(m));
    int64_t tokens = 0;
    for (int expert = 0; expert < 5; ++expert) {
      const SecondMoments& m = all[static_cast<size_t>(expert)];
      EXPECT_EQ(m.tokens, std::ranges::count(x.chosen, expert));
      tokens += m.tokens;
      if (m.tokens == 0) continue;
      ExpectMoments(m.values, x, x, false, site, expert);
      ExpectMoments(m.cross, x, y, true, site, expert);
    }
    EXPECT_EQ(tokens, 2 * 63);
  }
  EXPECT_TRUE(others) << "no token changed its experts";
}

TEST(CalibrationPass, SameBitsOnAnyNumberOfThreads) {
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    Model model(GoldenFolder("diffllama-gqa"));
    CalibrationPass calibration(model, Sequences());
    calibration.Advance(0);
    const std::vector<float> values = calibration.MomentsOf(1, Site::kDownProjIn).values;
    if (first.empty()) first = values;
    EXPECT_EQ(values, first);
  }
  SetThreads(0);
}

TEST(CalibrationPass, WeightsOfOneInputShareItsMoments) {
  for (const LinearPlace& place : FamilyOf({.family = "llama"}).linear) {
    const Site input = InputOf(place);
    EXPECT_EQ(InputOf(place) == place.Input(),
              place.tensor != "self_attn.k_proj" && place.tensor != "self_attn.v_proj" && place.tensor != "mlp.up_proj")
        << Name(input);
  }
}

}  // namespace
}  // namespace tare::calibration_pass_test
