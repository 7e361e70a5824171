// SPDX-License-Identifier: Apache-2.0
// Both towers, differential and standard, against the authors' modules and transformers: embeddings and attention
// logits within 2e-5 of the largest magnitude (parity_test.cc); plans for them; refused configurations.
#include "experiments/model/config/config.h"
#include "experiments/model/families/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <mutex>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace tare::clip_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kTolerance = 2e-5;

// Attention logits and layer outputs by the golden file's names and shapes.
class TowerRecorder : public SiteVisitor {
 public:
  TowerRecorder(int64_t heads, int64_t B, int64_t T) : heads_(heads), B_(B), T_(T) {}
  bool Wants(Site site, std::optional<int>) const override {
    return site == Site::kAttnLogits || site == Site::kLayerOut;
  }
  void Visit(const SiteBlock& b, int) override {
    const std::lock_guard lock(mutex_);
    std::vector<float>& all = values[Formatted("{}.{}", Name(b.site), *b.layer)];
    const bool logits = b.site == Site::kAttnLogits;
    const int64_t columns = logits ? T_ : b.stride, rows = logits ? heads_ * T_ : T_;
    all.resize(static_cast<size_t>(B_ * rows * columns), -std::numeric_limits<float>::infinity());
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

// The row of a prompt that CLIP reads: its largest id, the end of text.
int64_t ReadRow(const std::vector<int32_t>& ids, const ModelConfig& config) {
  return config.SeesImages() ? 0 : std::ranges::max_element(ids) - ids.begin();
}

class TowerParityTest : public testing::TestWithParam<const char*> {};

TEST_P(TowerParityTest, EmbeddingsLayersAndAttentionLogits) {
  const std::filesystem::path folder = GoldenFolder(GetParam());
  const Safetensors expected(folder / "expected.safetensors");
  Model tower(folder);
  const ModelConfig& c = tower.config();
  const TokenInput input = LoadModelInput(folder / "expected.safetensors", tower);
  const int64_t B = std::ssize(input.sequences), T = std::ssize(input.sequences[0]);
  TokenBatch batch;
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < B; ++b) rows.push_back(batch.Add(b, input.sequences[b]) + ReadRow(input.sequences[b], c));
  TowerRecorder recorder(c.heads, B, T);
  SiteVisitor* const visitors[] = {&recorder};
  tower.Forward(batch, visitors);
  std::vector<float> embeddings(static_cast<size_t>(B * c.Outputs()));
  tower.VocabularyLogits(rows, [&](size_t i, const float* row, int) {
    std::copy_n(row, c.Outputs(), embeddings.begin() + static_cast<int64_t>(i) * c.Outputs());
  });
  EXPECT_TRUE(
      AllNear(embeddings, ValuesOf<float>(expected, c.SeesImages() ? "image_embed" : "text_embed"), kTolerance));
  int compared = 0;
  for (const auto& [name, values] : recorder.values) {
    if (expected.Find(name) == nullptr) continue;
    EXPECT_TRUE(AllNear(values, ValuesOf<float>(expected, name), kTolerance)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, c.layers);
}

std::string TowerName(const testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Golden, TowerParityTest,
                         testing::Values("diffclip-vision", "diffclip-text", "clip-vision", "clip-text"), TowerName);

TEST(ClipTest, TowersHaveNoGateAndOneLinearLayerForIt) {
  const ModelSites sites = ModelSitesOf(LoadConfig(GoldenFolder("diffclip-vision")));
  EXPECT_FALSE(sites.Has(Site::kGateProjW));
  EXPECT_FALSE(sites.Has(Site::kGateProjIn));
  EXPECT_TRUE(sites.Has(Site::kUpProjW));
  EXPECT_TRUE(sites.Has(Site::kDifference));
}

TEST(ClipTest, ConfigurationsThatContradictThemselvesAreRefused) {
  const auto parse = [](const char* changes) {
    const std::string text = Formatted(
        R"({{"model_type": "diffclip_vision_model", "hidden_size": 32, "intermediate_size": 8, "num_hidden_layers": 1,
            {}}})",
        changes);
    return ParseConfig(text, "here");
  };
  EXPECT_EQ(parse(R"("num_attention_heads": 4, "image_size": 24, "patch_size": 6)").max_positions, 17);
  EXPECT_EQ(parse(R"("num_attention_heads": 4, "image_size": 24, "patch_size": 7)").max_positions, 10);
  EXPECT_EQ(parse(R"("num_attention_heads": 4, "head_dim": 9)").head_dim, 9);  // odd: nothing rotates pairs
  EXPECT_THAT(Call([&] { parse(R"("num_attention_heads": 4, "image_size": 24, "patch_size": 25)"); }),
              ThrowsMessage<Error>(HasSubstr("image_size: got 24, expected patch_size 25 to 16384")));
  EXPECT_THAT(Call([&] { parse(R"("num_attention_heads": 4, "hidden_act": "prelu")"); }),
              ThrowsMessage<Error>(HasSubstr("hidden_act: got 'prelu', expected silu, swish, gelu")));
  EXPECT_THAT(Call([&] { parse(R"("num_attention_heads": 1, "head_dim": 32)"); }),
              ThrowsMessage<Error>(HasSubstr("num_attention_heads: got 1, expected an even number")));
}

TEST(ClipTest, AVisionTowerWithoutImagesIsRefused) {
  Model tower(GoldenFolder("clip-vision"));
  TokenBatch batch;
  batch.Add(0, std::vector<int32_t>{0, 1});
  EXPECT_THAT(Call([&] { tower.Forward(batch); }), ThrowsMessage<Error>(HasSubstr("got token ids, expected images")));
}

}  // namespace
}  // namespace tare::clip_test
