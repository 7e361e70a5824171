// SPDX-License-Identifier: Apache-2.0
// statistics_job_test.cc tests what a job's units give together.
//
// Jobs without the command: their identity, their units, and that results do not depend on how they are cut.
// In the released build alone: it measures whole models again and again, ten times as long under sanitizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "experiments/model/plan_run.h"
#include "experiments/observe/statistics_job.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/support/checkpoint.h"
#include "tests/support/logits.h"
#include "tests/support/run_command.h"

namespace tare::statistics_job_test {
namespace {

TEST(StatisticsUnits, SequencesAreIdentifiedByLengthsAndIds) {
  const std::string hash = HashOf({{.tokens = {1, 2, 3}}, {.tokens = {4}}});
  EXPECT_EQ(HashOf({{.tokens = {1, 2, 3}}, {.tokens = {4}}}), hash);
  EXPECT_NE(HashOf({{.tokens = {1, 2}}, {.tokens = {3, 4}}}), hash);
  EXPECT_NE(HashOf({{.tokens = {1, 2, 3}}, {.tokens = {5}}}), hash);
}

using ::testing::HasSubstr;

class StatisticsJobTest : public testing::Test {
 protected:
  // Sequences of 400 tokens, five per batch: twelve are three batches.
  std::vector<ScoredSequence> Sequences(size_t n) {
    std::vector<ScoredSequence> sequences(n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t t = 0; t < kTokens; ++t)
        sequences[i].tokens.push_back(static_cast<int32_t>((i * 31 + t * 7) % model_.config().vocabulary));
    }
    return sequences;
  }
  StatisticsSet Collect(const std::string& out, const StatisticsOptions& options, size_t n = 12) {
    return CollectStatistics(model_, input_, Sequences(n), options, "1", folder_ / out, {});
  }

  static constexpr size_t kTokens = 400;
  TemporaryFolder folder_;
  Model model_{GoldenFolder("llama-gqa")};
  const TokenInput input_{.kind = TokenInput::Kind::kIds, .sequences = {}, .bos = {}, .path = "ids", .sha256 = "aa"};
};

TEST_F(StatisticsJobTest, ItsIdentityCoversAllThatDeterminesFigures) {
  const StatisticsSet set = EmptyStatistics(model_, input_, Sequences(12), {.sites = "q,k"}, "1");
  EXPECT_EQ(set.units, std::vector<uint8_t>(3));
  EXPECT_EQ(set.job.at("sites"), "q,k");
  EXPECT_EQ(set.job.at("weights_sha256"), model_.files().ContentHash());
  auto other = Sequences(12);
  other[2].tokens[5] ^= 1;
  EXPECT_NE(EmptyStatistics(model_, input_, other, {.sites = "q,k"}, "1").job, set.job);
  EXPECT_THROW(EmptyStatistics(model_, input_, {}, {}, "1"), Error);
  EXPECT_THROW(EmptyStatistics(model_, input_, Sequences(1), {.shard = {.index = 0, .count = 2}}, "1"), Error);
}

TEST_F(StatisticsJobTest, AShardResumesItsOwnPartOnly) {
  const StatisticsOptions first{.sites = "layer_out", .shard = {.index = 0, .count = 2}};
  const StatisticsSet shard = Collect("a.h5", first);
  EXPECT_EQ(shard.units, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(shard.positions, 7 * kTokens);
  std::filesystem::rename(folder_ / "a.h5", folder_ / "b.h5.part");
  try {
    Collect("b.h5", {.sites = "layer_out", .shard = {.index = 1, .count = 2}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("holds unit 0, which does not belong to shard 1/2; try --fresh"));
  }
  // The other part of the whole job is taken up where this one is a beginning of it.
  const StatisticsSet whole = Collect("b.h5", {.sites = "layer_out"});
  EXPECT_TRUE(whole.Whole());
  Collect("c.h5", {.sites = "layer_out"});
  EXPECT_EQ(Sha256OfFile(folder_ / "b.h5"), Sha256OfFile(folder_ / "c.h5"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.h5.part"));
}

// A window that takes minutes: its layers, each a share of its tokens; with scales per head in each of two passes.
TEST(StatisticsJob, ProgressOfALongWindowIsByLayers) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  checkpoint.config["max_position_embeddings"] = 8192;
  checkpoint.Write(folder / "m");
  Model model(folder / "m");
  const TokenInput input{.kind = TokenInput::Kind::kIds, .sequences = {}, .bos = {}, .path = "ids", .sha256 = "aa"};
  constexpr int64_t kTokens = 4096;
  const std::vector<ScoredSequence> windows(2, {.tokens = std::vector<int32_t>(kTokens, 7)});
  for (const int64_t passes : {1, 2}) {
    std::vector<int64_t> expected, reported;
    for (int64_t window = 0; window < 2; ++window) {
      for (int64_t pass = 0; pass < passes; ++pass) {
        for (int64_t layer = 1; layer < model.config().layers; ++layer)
          expected.push_back(window * kTokens + (pass * kTokens + kTokens * layer / model.config().layers) / passes);
      }
      expected.push_back((window + 1) * kTokens);
    }
    const StatisticsOptions options{.sites = "q", .formats = passes == 1 ? "int8/token" : "int8/head"};
    CollectStatistics(model, input, windows, options, "1", folder / "s.h5",
                      [&](int64_t done, int64_t total, const char*) {
                        EXPECT_EQ(total, 2 * kTokens);
                        reported.push_back(done);
                      });
    EXPECT_EQ(reported, expected) << passes;
  }
}

// Each family has one row for each layer and head of each of its sites, with masked pairs left out.
TEST(StatisticsJob, EverySiteRespectsItsMask) {
  for (const char* golden : kGoldenCheckpoints) {
    Model model(GoldenFolder(golden));
    std::vector<ScoredSequence> sequences;
    for (const std::vector<int32_t>& row : GoldenRows(golden)) sequences.push_back({.tokens = row});
    const TokenInput input{.kind = TokenInput::Kind::kIds, .sequences = {}, .bos = {}, .path = "ids", .sha256 = "aa"};
    const StatisticsSet set = CollectStatistics(model, input, sequences, {}, "1", "", {});
    const ModelSites sites = ModelSitesOf(model);
    std::set<SiteKey> expected, collected;
    for (const SiteInfo& info : kSites) {
      if (IsCache(info.site)) continue;
      for (SiteKey key : sites.Keys(info.site)) {
        key.expert.reset();  // of all experts together
        expected.insert(key);
      }
    }
    for (const auto& [key, statistics] : set.sites) collected.insert(key);
    EXPECT_EQ(collected, expected) << golden;
    const auto T = static_cast<int>(sequences[0].tokens.size());
    for (int layer = 0; layer < sites.layers; ++layer) {
      if (model.config().KeysLayer(layer) < 0) continue;
      const int n = model.config().Window(layer) > 0 ? model.config().Window(layer) : T;
      const auto first_head = set.sites.lower_bound({Site::kAttnLogits, layer});
      // Without the first query, which sees one key.
      EXPECT_EQ(first_head->second.Total().values, 2u * static_cast<unsigned>(n * (n + 1) / 2 - 1 + (T - n) * n))
          << golden << " layer " << layer;
    }
  }
}

}  // namespace
}  // namespace tare::statistics_job_test
