// SPDX-License-Identifier: Apache-2.0
// The model's output against its reference implementation in f32, on every golden checkpoint: embeddings, attention
// logits, layer outputs, final norm and vocabulary logits within 2e-5 of the largest magnitude, the effect of reordered
// f32 sums of some hundred terms over a few layers; and with quantized attention logits, within a tenth of the
// quantization's effect.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <mutex>

#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/simulated_plan.h"

namespace tare::parity_test {
namespace {

constexpr double kTolerance = 2e-5;

// Keeps every block, by the golden file's names and shapes.
class Recorder : public SiteVisitor {
 public:
  Recorder(const ModelConfig& config, int64_t B, int64_t T) : heads_(config.heads), B_(B), T_(T) {}
  bool Wants(Site, std::optional<int>) const override { return true; }
  void Visit(const SiteBlock& b, int) override {
    const std::lock_guard lock(mutex_);
    std::vector<float>& all = values[std::string(Name(b.site)) + (b.layer ? Formatted(".{}", *b.layer) : "")];
    const bool logits = b.site == Site::kAttnLogits;
    const int64_t columns = logits ? T_ : b.stride, rows = logits ? heads_ * T_ : T_;
    all.resize(B_ * rows * columns, -std::numeric_limits<float>::infinity());
    for (int64_t r = 0; r < b.rows; ++r) {
      const int64_t row = b.sequence * rows + (logits ? *b.head * T_ : 0) + b.first_row + r;
      std::ranges::copy(b.Row(r), all.begin() + row * columns + b.First(r));
    }
  }
  std::map<std::string, std::vector<float>> values;

 private:
  int64_t heads_, B_, T_;
  std::mutex mutex_;
};

struct Golden {
  explicit Golden(const std::string& name)
      : expected(GoldenFolder(name) / "expected.safetensors"), model(GoldenFolder(name)) {
    const std::vector<int64_t> shape = expected.Find("input_ids")->shape;
    B = shape[0], T = shape[1];
    const auto ids = ValuesOf<int64_t>(expected, "input_ids");
    for (int64_t b = 0; b < B; ++b) batch.Add(b, std::vector<int32_t>(ids.begin() + b * T, ids.begin() + (b + 1) * T));
  }
  std::vector<float> Logits(SiteVisitors visitors) {
    model.Forward(batch, visitors);
    std::vector<int64_t> rows;
    for (int64_t r = 0; r < B * T; ++r) rows.push_back(r);
    const int64_t V = model.config().vocabulary;
    std::vector<float> logits(B * T * V);
    model.VocabularyLogits(rows, [&](size_t i, const float* row, int) { std::copy_n(row, V, logits.begin() + i * V); });
    return logits;
  }
  Safetensors expected;
  Model model;
  TokenBatch batch;
  int64_t B = 0, T = 0;
};

class ParityTest : public testing::TestWithParam<const char*> {};

TEST_P(ParityTest, EverySite) {
  Golden golden(GetParam());
  Recorder recorder(golden.model.config(), golden.B, golden.T);
  SiteVisitor* const visitors[] = {&recorder};
  recorder.values["logits"] = golden.Logits(visitors);
  std::vector<std::string> names = {"logits", "embed", "final_norm"};
  const ModelConfig& config = golden.model.config();
  for (int i = 0; i < config.layers; ++i) {
    names.push_back(Formatted("layer_out.{}", i));
    if (config.KeysLayer(i) >= 0) names.push_back(Formatted("attn_logits.{}", i));
    const LayerKind kind = config.Kind(i);
    if (kind != LayerKind::kMamba && kind != LayerKind::kMemoryUnit) continue;
    names.push_back(Formatted("gate.{}", i));
    recorder.values[names.back()] =
        recorder.values[Formatted("{}.{}", kind == LayerKind::kMamba ? "mamba.gate" : "gmu.gate", i)];
    if (kind == LayerKind::kMemoryUnit) continue;
    names.push_back(Formatted("scan.{}", i));
    recorder.values[names.back()] = recorder.values[Formatted("scan.out.{}", i)];
  }
  for (const std::string& name : names) {
    const testing::AssertionResult near =
        AllNear(recorder.values[name], ValuesOf<float>(golden.expected, name), kTolerance);
    EXPECT_TRUE(near) << name;
    if (name == "logits") RecordProperty(GetParam(), near.message());
  }
}

TEST_P(ParityTest, ObservingChangesNothing) {
  Golden golden(GetParam());
  const std::vector<float> plain = golden.Logits({});
  Recorder recorder(golden.model.config(), golden.B, golden.T);
  SiteVisitor* const visitors[] = {&recorder};
  EXPECT_EQ(golden.Logits(visitors), plain);
}

class QuantizedParityTest : public testing::TestWithParam<const char*> {};

TEST_P(QuantizedParityTest, AttentionLogits) {
  Golden golden(GetParam());
  const std::vector<float> plain = ValuesOf<float>(golden.expected, "logits");
  for (const int bits : {8, 6, 4}) {
    for (const char* granularity : {"tensor", "head", "row"}) {
      SimulatedPlan quantizer(Formatted("attn_logits=int{}/{}", bits, granularity), golden.model.config());
      SiteVisitor* const visitors[] = {&quantizer};
      const std::vector<float> actual = golden.Logits(visitors);
      const auto expected = ValuesOf<float>(golden.expected, Formatted("logits_q{}_{}", bits, granularity));
      double effect = 0, difference = 0;
      for (size_t i = 0; i < plain.size(); ++i) {
        effect += std::pow(double{expected[i]} - plain[i], 2);
        difference += std::pow(double{actual[i]} - expected[i], 2);
      }
      EXPECT_LT(std::sqrt(difference), 0.1 * std::sqrt(effect))
          << bits << " bits, " << granularity << ": off by " << std::sqrt(difference / effect) << " of the effect";
      EXPECT_GT(effect, 0.0);
    }
  }
}

// The quantizer on the golden logits themselves. Golden codes are round(x / s), ours round(x * inv): they may differ by
// one where x / s lies within rounding of a half, which is counted and must be rare.
TEST_P(QuantizedParityTest, GoldenCodes) {
  const Safetensors expected(GoldenFolder(GetParam()) / "expected.safetensors");
  const ModelConfig config = LoadConfig(GoldenFolder(GetParam()));
  int64_t ties = 0, codes = 0;
  for (int layer = 0; layer < config.layers; ++layer) {
    const TensorView& tensor = *expected.Find(Formatted("attn_logits.{}", layer));
    const int64_t B = tensor.shape[0], H = tensor.shape[1], T = tensor.shape[2];
    const auto logits = ValuesOf<float>(expected, tensor.name);
    for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
      for (const std::string granularity : {"tensor", "head", "row"}) {
        const auto golden =
            ValuesOf<int8_t>(expected, Formatted("codes_q{}_{}.{}", Info(format).bits, granularity, layer));
        SimulatedPlan quantizer(Formatted("attn_logits={}/{}", Name(format), granularity), config);
        quantizer.BeginBatch(B);
        std::vector<float> values = logits;
        std::vector<SiteBlock> blocks;
        for (int64_t b = 0; b < B; ++b) {
          for (int64_t h = 0; h < H; ++h) {
            blocks.push_back({.site = Site::kAttnLogits,
                              .layer = layer,
                              .sequence = b,
                              .slot = static_cast<int>(b),
                              .head = static_cast<int>(h),
                              .map = 1,
                              .rows = T,
                              .first_columns = 1,
                              .column_step = 1,
                              .values = values.data() + (b * H + h) * T * T,
                              .stride = T});
          }
        }
        for (const SiteBlock& block : blocks) quantizer.Survey(block, 0);
        std::vector<float> before = values;
        for (const SiteBlock& block : blocks) quantizer.Visit(block, 0);
        // The scale that was used: values are code * scale, so the scale comes back from the group's largest magnitude.
        for (int64_t b = 0; b < B; ++b) {
          for (int64_t h = 0; h < H; ++h) {
            for (int64_t t = 0; t < T; ++t) {
              float absmax = 0;
              for (int64_t hh = granularity == "tensor" ? 0 : h; hh < (granularity == "tensor" ? H : h + 1); ++hh) {
                for (int64_t tt = granularity == "row" ? t : 0; tt < (granularity == "row" ? t + 1 : T); ++tt) {
                  absmax = std::max(absmax, AbsMax(before.data() + ((b * H + hh) * T + tt) * T, tt + 1));
                }
              }
              const float scale = ScaleFor(absmax, format).scale;
              for (int64_t s = 0; s <= t; ++s) {
                const int64_t at = ((b * H + h) * T + t) * T + s;
                const float code = values[at] / scale;
                ASSERT_NEAR(code, std::round(code), 1e-4);
                const int difference = std::abs(static_cast<int>(std::round(code)) - golden[at]);
                ++codes;
                if (difference == 0) continue;
                ++ties;
                const double exact = double{before[at]} / scale;
                ASSERT_EQ(difference, 1);
                ASSERT_NEAR(std::abs(exact - std::trunc(exact)), 0.5, 1e-4) << "not a tie: " << exact;
              }
            }
          }
        }
      }
    }
  }
  RecordProperty("ties", std::to_string(ties));
  EXPECT_LT(ties, codes / 1000) << ties << " of " << codes;
}

std::string NameOf(const testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Golden, ParityTest, testing::ValuesIn(kGoldenCheckpoints), NameOf);
INSTANTIATE_TEST_SUITE_P(Golden, QuantizedParityTest, testing::ValuesIn(kGoldenQuantized), NameOf);

}  // namespace
}  // namespace tare::parity_test
