// SPDX-License-Identifier: Apache-2.0
// Importance of a model's own statistics, against the second moments that calibration sums, and files of other models.
#include "experiments/quantize/importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/observe/statistics_job.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::importance_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

class ImportanceTest : public testing::Test {
 protected:
  explicit ImportanceTest() { PutManyIds(folder_ / "ids.safetensors", 3, 40); }

  StatisticsSet StatisticsOf(Model& model) {
    const TokenInput ids = LoadTokenInput(folder_ / "ids.safetensors", model.folder(), model.config().vocabulary);
    sequences_ = CutDisjoint(ids, model.config(), {});
    return CollectStatistics(model, ids, sequences_, {.sites = "linear_in"}, "1", folder_ / "s.h5", {});
  }

  std::vector<float> Read(const char* file, const ModelConfig& config, const std::string& tensor) const {
    const gguf::Imatrix matrix = gguf::ReadImatrix(folder_ / file);
    for (int layer = 0; layer < config.layers; ++layer) {
      for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
        if (linear.Tensor(config) == tensor) return ImportanceOf(matrix, config, linear);
      }
    }
    return {};
  }

  const TemporaryFolder folder_;
  std::vector<ScoredSequence> sequences_;
};

// Sums of 120 squares in f32: off by 120 2^-24 at most.
TEST_F(ImportanceTest, SumsAreTheDiagonalOfTheMoments) {
  for (const char* golden : {"llama-gqa", "diffllama-gqa"}) {
    Model model(GoldenFolder(golden));
    const StatisticsSet set = StatisticsOf(model);
    const gguf::Imatrix made = ImatrixOf(set, model.config());
    EXPECT_EQ(made.chunk_size, 120);
    CalibrationPass pass(model, sequences_);
    for (const auto& [site, name] :
         {std::pair(Site::kQProjIn, "blk.0.attn_q.weight"), std::pair(Site::kOProjIn, "blk.0.attn_output.weight"),
          std::pair(Site::kGateProjIn, "blk.0.ffn_up.weight"), std::pair(Site::kDownProjIn, "blk.0.ffn_down.weight")}) {
      const SecondMoments moments = pass.MomentsOf(0, site);
      const gguf::Imatrix::Entry& entry = made.entries.at(name);
      ASSERT_EQ(std::ssize(entry.sums), moments.in) << name;
      EXPECT_EQ(entry.counts, std::vector<float>{120});
      for (int64_t i = 0; i < moments.in; ++i) {
        const float expected = moments.values[static_cast<size_t>(i * moments.in + i)];
        EXPECT_NEAR(entry.sums[static_cast<size_t>(i)], expected, 120 * 0x1p-24 * expected) << name << " " << i;
      }
    }
    WriteImatrix(made, folder_ / "i.gguf");
    EXPECT_EQ(Read("i.gguf", model.config(), "model.layers.1.self_attn.k_proj"),
              made.entries.at("blk.1.attn_k.weight").Means(0, 1));
  }
}

TEST_F(ImportanceTest, PartsOfAFusedTensorShareItsInput) {
  Model model(GoldenFolder("phi3"));
  const gguf::Imatrix made = ImatrixOf(StatisticsOf(model), model.config());
  EXPECT_TRUE(made.entries.contains("blk.0.attn_qkv.weight"));
  EXPECT_FALSE(made.entries.contains("blk.0.attn_q.weight"));
  WriteImatrix(made, folder_ / "i.dat");
  const std::vector<float> of_q = Read("i.dat", model.config(), "model.layers.0.self_attn.qkv_proj.q");
  EXPECT_EQ(std::ssize(of_q), model.config().hidden);
  EXPECT_EQ(of_q, Read("i.dat", model.config(), "model.layers.0.self_attn.qkv_proj.v"));
}

TEST_F(ImportanceTest, EachExpertHasItsOwn) {
  Model model(GoldenFolder("mixtral"));
  const StatisticsSet set = StatisticsOf(model);
  EXPECT_THAT(Call([&] { ImatrixOf(set, model.config()); }),
              ThrowsMessage<Error>(HasSubstr("hold the inputs of all experts together")));
  gguf::Imatrix made{.chunk_count = 1, .chunk_size = 8};
  gguf::Imatrix::Entry& entry = made.entries["blk.0.ffn_down_exps.weight"];
  for (int expert = 0; expert < model.config().experts; ++expert) {
    entry.sums.insert(entry.sums.end(), static_cast<size_t>(model.config().ffn), static_cast<float>(expert));
    entry.counts.push_back(expert == 0 ? 0.0f : 2.0f);
  }
  WriteImatrix(made, folder_ / "i.gguf");
  const auto read = [&](int expert) {
    return Read("i.gguf", model.config(), Formatted("model.layers.0.block_sparse_moe.experts.{}.w2", expert));
  };
  EXPECT_THAT(read(0), AllOf(SizeIs(model.config().ffn), Each(1.0f))) << "never seen";
  EXPECT_THAT(read(3), AllOf(SizeIs(model.config().ffn), Each(1.5f)));
}

TEST_F(ImportanceTest, FilesOfOtherModelsAreRefused) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  gguf::Imatrix made{.entries = {{"blk.0.attn_q.weight", {.sums = {1, 2, 3}, .counts = {1}}}}};
  const auto read = [&](size_t weight) { ImportanceOf(made, config, LinearLayersOf(config, 0)[weight]); };
  EXPECT_THAT(Call([&] { read(0); }),
              ThrowsMessage<Error>(HasSubstr("'blk.0.attn_q.weight': got 3 sums and 1 counts, expected 48 and 1")));
  EXPECT_THAT(Call([&] { read(1); }),
              ThrowsMessage<Error>(HasSubstr("'blk.0.attn_k.weight': got 0 sums and 0 counts, expected 48 and 1")));
}

TEST_F(ImportanceTest, StatisticsMustHaveAllInputs) {
  const ModelConfig config = LoadConfig(GoldenFolder("llama-gqa"));
  EXPECT_THAT(Call([&] { ImatrixOf({}, config); }),
              ThrowsMessage<Error>(HasSubstr("got no finite sums of 48 channels in the statistics")));
  StatisticsSet set;
  SiteStatistics& s = set.sites[{.site = Site::kQProjIn, .layer = 0}];
  s.channel_energy = ExactSums(48);
  s.outliers.nonfinite = 2;
  EXPECT_THAT(Call([&] { ImatrixOf(set, config); }),
              ThrowsMessage<Error>(HasSubstr("got no finite sums of 48 channels in the statistics")));
}

}  // namespace
}  // namespace tare::importance_test
