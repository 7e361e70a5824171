// SPDX-License-Identifier: Apache-2.0
// Dumps read back: the golden tensors under the golden names and shapes, and nothing left if one could not be finished.
#include "experiments/observe/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <format>

#include "experiments/model/config/config.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/hdf5.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/compare.h"
#include "tests/support/logits.h"

namespace tare::dump_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

constexpr double kTolerance = 2e-5;  // as parity_test.cc

std::vector<ScoredSequence> GoldenSequences(const std::string& name, int repeats = 1) {
  std::vector<ScoredSequence> sequences;
  for (int i = 0; i < repeats; ++i) {
    for (const std::vector<int32_t>& row : GoldenRows(name)) sequences.push_back({.tokens = row});
  }
  return sequences;
}

void DumpGolden(const std::string& name, const std::string& plan, const std::vector<ScoredSequence>& sequences,
                const std::set<std::string>& sites, const std::filesystem::path& out, const Progress& progress = {}) {
  Model model(GoldenFolder(name));
  PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
  Dump(model, run, sequences, sites, out, progress);
}

constexpr std::array<std::string_view, 5> kSitesDumped{"logits", "embed", "layer_out", "final_norm", "attn_logits"};

TEST(DumpTest, HoldsWhatTransformersComputes) {
  for (const char* name : kGoldenCheckpoints) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    DumpGolden(name, "", GoldenSequences(name), {"logits", "embed", "layer_out", "final_norm", "attn_logits"},
               folder / "d.h5");
    const Hdf5Reader file(folder / "d.h5");
    file.Verify();
    const Safetensors expected(GoldenFolder(name) / "expected.safetensors");
    EXPECT_EQ(file.Read<int64_t>("input_ids"), ValuesOf<int64_t>(expected, "input_ids"));
    const ModelConfig c = LoadConfig(GoldenFolder(name));
    size_t datasets = 1;
    for (const TensorView& tensor : expected.tensors()) {
      const std::string site = tensor.name.substr(0, tensor.name.find('.'));
      const bool is_dumped = std::ranges::contains(kSitesDumped, site);
      EXPECT_EQ(file.Has(tensor.name), is_dumped || tensor.name == "input_ids") << tensor.name;
      if (!is_dumped) continue;
      ++datasets;
      EXPECT_EQ(file.Shape(tensor.name), tensor.shape) << tensor.name;
      EXPECT_TRUE(AllNear(file.Read<float>(tensor.name), ValuesOf<float>(expected, tensor.name), kTolerance))
          << tensor.name;
    }
    EXPECT_EQ(file.datasets().size(), datasets);
    int attention = 0, first = -1;
    for (int layer = 0; layer < c.layers; ++layer) {
      if (c.KeysLayer(layer) < 0) continue;
      if (++attention == 1) first = layer;
    }
    EXPECT_EQ(datasets, 4u + static_cast<size_t>(c.layers + attention));
    if (attention == 0) continue;
    const std::vector<float> logits = file.Read<float>("attn_logits." + std::to_string(first));
    EXPECT_EQ(logits[1], -INFINITY);  // query 0, key 1
    EXPECT_TRUE(std::isfinite(logits[0]));
  }
}

TEST(DumpTest, RecordsItsOrigin) {
  const TemporaryFolder folder;
  Model model(GoldenFolder("llama-mha"));
  PlanRun run(Plan::Parse(" attn_logits = int8 / row"), Carrying::kSimulated, ModelSitesOf(model));
  Dump(model, run, GoldenSequences("llama-mha"), {"embed"}, folder / "d.h5", {}, {{"input_sha256", "abc"}});
  const Hdf5Reader file(folder / "d.h5");
  EXPECT_EQ(file.StringAttribute("", "schema"), "tare.dump/1");
  EXPECT_EQ(file.StringAttribute("", "model"), "llama-mha");
  EXPECT_EQ(file.StringAttribute("", "plan"), "attn_logits=int8/row");
  EXPECT_EQ(file.StringAttribute("", "math"), "f32");
  EXPECT_EQ(file.StringAttribute("", "weights_sha256"), model.files().ContentHash());
  EXPECT_EQ(file.StringAttribute("", "input_sha256"), "abc");
}

TEST(DumpTest, HoldsTheRequestedSites) {
  const TemporaryFolder folder;
  const std::pair<std::set<std::string>, std::vector<std::string>> cases[] = {
      {{"embed"}, {"embed", "input_ids"}},
      {{"logits"}, {"input_ids", "logits"}},
      {{"final_norm", "layer_out"}, {"final_norm", "input_ids", "layer_out.0", "layer_out.1"}},
      {{"attn_logits"}, {"attn_logits.0", "attn_logits.1", "input_ids"}}};
  for (const auto& [sites, datasets] : cases) {
    DumpGolden("llama-old-config", "", GoldenSequences("llama-old-config"), sites, folder / "d.h5");
    const Hdf5Reader file(folder / "d.h5");
    EXPECT_EQ(file.datasets(), datasets);
    file.Verify();
  }
}

// 120 sequences: three batches, where only the number of a sequence says where its rows go.
TEST(DumpTest, SequencesOfEveryBatchAreInTheirPlace) {
  const TemporaryFolder folder;
  const char* name = "llama-old-config";
  SetThreads(5);
  int64_t reports = 0;
  DumpGolden(name, "", GoldenSequences(name, 60), {"logits", "layer_out", "attn_logits"}, folder / "d.h5",
             [&](int64_t, int64_t total, const char*) {
               ++reports;
               EXPECT_EQ(total, 120 * 37);
             });
  SetThreads(0);
  EXPECT_EQ(reports, 3);
  const Hdf5Reader file(folder / "d.h5");
  const Safetensors golden(GoldenFolder(name) / "expected.safetensors");
  for (const char* dataset : {"logits", "layer_out.1", "attn_logits.1"}) {
    const std::vector<float> all = file.Read<float>(dataset), expected = ValuesOf<float>(golden, dataset);
    EXPECT_EQ(file.Shape(dataset)[0], 120);
    ASSERT_EQ(all.size(), 60 * expected.size());
    for (size_t i = 0; i < 60; ++i) {
      ASSERT_TRUE(AllNear(std::span(all).subspan(i * expected.size(), expected.size()), expected, kTolerance))
          << dataset << " " << i;
    }
  }
}

// Under a plan: the values that the model uses next. Codes are whole, and the logits after them are the golden
// quantized ones.
TEST(DumpTest, HoldsQuantizedValuesUnderAPlan) {
  const TemporaryFolder folder;
  const char* name = "diffllama-mha";
  DumpGolden(name, "attn_logits=int4/row", GoldenSequences(name), {"logits", "attn_logits"}, folder / "d.h5");
  const Hdf5Reader file(folder / "d.h5");
  const std::vector<float> attention = file.Read<float>("attn_logits.2");
  for (size_t row = 0; row < attention.size() / 37; ++row) {
    const size_t columns = row % 37 + 1;
    float absmax = 0;
    for (size_t s = 0; s < columns; ++s) absmax = std::max(absmax, std::fabs(attention[row * 37 + s]));
    for (size_t s = 0; s < columns; ++s) {
      const float code = attention[row * 37 + s] / absmax * 7;
      ASSERT_NEAR(code, std::round(code), 1e-5) << row << " " << s;
    }
  }
  const Safetensors golden(GoldenFolder(name) / "expected.safetensors");
  const std::vector<float> actual = file.Read<float>("logits"), plain = ValuesOf<float>(golden, "logits"),
                           expected = ValuesOf<float>(golden, "logits_q4_row");
  double effect = 0, difference = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    effect += std::pow(double{expected[i]} - plain[i], 2);
    difference += std::pow(double{actual[i]} - expected[i], 2);
  }
  EXPECT_LT(std::sqrt(difference), 0.1 * std::sqrt(effect));
}

TEST(DumpTest, UnequalLengthsAreRefused) {
  const TemporaryFolder folder;
  std::vector<ScoredSequence> sequences = GoldenSequences("llama-mha");
  sequences[1].tokens.pop_back();
  EXPECT_THAT(Call([&] { DumpGolden("llama-mha", "", sequences, {"logits"}, folder / "d.h5"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("37"), HasSubstr("36"))));
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(DumpTest, AFailureLeavesNothing) {
  const TemporaryFolder folder;
  const auto sequences = GoldenSequences("llama-old-config", 60);
  // Stopped between batches.
  const Progress stop = [](int64_t, int64_t, const char*) { throw Error("stopped"); };
  EXPECT_THAT(Call([&] { DumpGolden("llama-old-config", "", sequences, {"logits"}, folder / "d.h5", stop); }),
              ThrowsMessage<Error>("stopped"));
  EXPECT_THAT(folder.Names(), IsEmpty());
  // A disk that is full.
  {
    const FileSizeLimit limit(200000);
    EXPECT_THROW(DumpGolden("llama-old-config", "", sequences, {"logits"}, folder / "d.h5"), Error);
  }
  EXPECT_THAT(folder.Names(), IsEmpty());
  // A token that the model refuses, in the last batch.
  auto bad = sequences;
  bad.back().tokens[5] = 96;
  EXPECT_THROW(DumpGolden("llama-old-config", "", bad, {"logits"}, folder / "d.h5"), Error);
  EXPECT_THAT(folder.Names(), IsEmpty());
  EXPECT_THROW(DumpGolden("llama-old-config", "", sequences, {"logits"}, folder / "nowhere" / "d.h5"), Error);
}

TEST(DumpTest, AnEarlierFileStaysUntilTheNextIsWhole) {
  const TemporaryFolder folder;
  PutFile(folder / "d.h5", "before");
  const Progress stop = [](int64_t, int64_t, const char*) { throw Error("stopped"); };
  EXPECT_THROW(DumpGolden("llama-mha", "", GoldenSequences("llama-mha"), {"logits"}, folder / "d.h5", stop), Error);
  EXPECT_EQ(GetFile(folder / "d.h5"), "before");
  EXPECT_THAT(folder.Names(), ElementsAre("d.h5"));
  DumpGolden("llama-mha", "", GoldenSequences("llama-mha"), {"logits"}, folder / "d.h5");
  Hdf5Reader(folder / "d.h5").Verify();
}

}  // namespace
}  // namespace tare::dump_test
