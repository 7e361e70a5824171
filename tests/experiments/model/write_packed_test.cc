// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/write_packed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "experiments/model/plan_run.h"
#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::write_packed_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

// Executed, with packed codes from `file` unless it is empty.
std::vector<float> Under(const std::string& name, const char* plan, const std::filesystem::path& file,
                         PackedFileIs is = PackedFileIs::kMade, Math math = Math::kF32) {
  Model model(GoldenFolder(name), is == PackedFileIs::kMade ? WeightReading::kWhole : WeightReading::kKnown, math);
  if (!file.empty()) model.KeepPackedIn(file, is);
  PlanRun run(Plan::Parse(plan), Carrying::kExecuted, ModelSitesOf(model));
  const SiteVisitors visitors = run.Begin(model);
  return LogitsOf(model, GoldenBatch(name), visitors);
}

// The same bits from memory, from the file when it is made, and from it in another run: with inputs on the integer
// kernels, with weights alone (values in floating point), tied and fused weights.
TEST(WritePacked, GivesTheBitsOfCodesInMemory) {
  for (const char* name : {"llama-gqa", "diffllama-mha", "phi3"}) {
    for (const char* plan : {"weights=int4/group16,linear_in=int8/token", "weights=int8/channel",
                             "weights=int4/group16+zero,linear_in=int8/token,weights[l0]=int8/channel"}) {
      const TemporaryFolder folder;
      const std::vector<float> expected = Under(name, plan, {});
      EXPECT_EQ(Under(name, plan, folder / "packed"), expected) << name << " " << plan;
      EXPECT_EQ(Under(name, plan, folder / "packed", PackedFileIs::kRead), expected) << name << " " << plan;
    }
  }
}

// What is read is the file, not the weights.
TEST(WritePacked, LaterRunsDoNotPack) {
  const TemporaryFolder folder;
  const char* const plan = "weights=int4/group16,linear_in=int8/token";
  const Model model(GoldenFolder("llama-gqa"));
  const PackedSource source{model.files().ContentHash(), model.files().ConfigHash(), "weights=int4/group16", "f32"};
  WritePacked(folder / "packed", source, Model(GoldenFolder("llama-mha")),
              ResolvedPlan(Plan::Parse(plan), ModelSitesOf(model), Carrying::kExecuted));
  EXPECT_THAT(Call([&] { Under("llama-gqa", plan, folder / "packed", PackedFileIs::kRead); }),
              ThrowsMessage<Error>(HasSubstr("expected [")));
}

// Under bf16, weights in f32 are rounded from what they were converted to.
TEST(WritePacked, TheMathIsOfTheFile) {
  if (!HasProducts(Math::kBf16)) GTEST_SKIP() << "no products of bf16 here";
  const TemporaryFolder folder;
  const char* const plan = "weights=int4/group16,linear_in=int8/token";
  Under("llama-mha", plan, folder / "packed");
  EXPECT_THAT(Call([&] { Under("llama-mha", plan, folder / "packed", PackedFileIs::kRead, Math::kBf16); }),
              ThrowsMessage<Error>(HasSubstr("got packed codes of --math f32, expected bf16")));
}

TEST(WritePacked, TellsHowFarItIs) {
  const TemporaryFolder folder;
  Model model(GoldenFolder("llama-gqa"));
  model.KeepPackedIn(folder / "packed", PackedFileIs::kMade);
  PlanRun run(Plan::Parse("weights=int8/channel"), Carrying::kExecuted, ModelSitesOf(model));
  std::map<std::string, std::vector<int64_t>> told;
  run.Begin(model, [&](int64_t done, int64_t total, const char* unit) {
    EXPECT_LE(done, total);
    told[unit].push_back(done);
    if (done == total) told[unit].push_back(-1);
  });
  EXPECT_THAT(told["layers of weights"], ElementsAre(1, 2, 3, -1));
  EXPECT_THAT(told["matrices of weights"], SizeIs(7 * 3 + 1));
  EXPECT_EQ(told["matrices of weights"].back(), -1);
}

// Also where they are too many to keep in memory: without the file they are packed when tokens reach them.
TEST(WritePacked, ExpertsAreInTheFile) {
  for (const char* name : {"gpt-oss", "mixtral"}) {
    const TemporaryFolder folder;
    const auto under = [&](const char* plan, int64_t most_kept, const std::filesystem::path& file) {
      Model model(GoldenFolder(name), Math::kF32, most_kept);
      if (!file.empty()) model.KeepPackedIn(file, PackedFileIs::kMade);
      PlanRun run(Plan::Parse(plan), Carrying::kExecuted, ModelSitesOf(model));
      const SiteVisitors visitors = run.Begin(model);
      if (!file.empty()) {
        const LinearLayer place = LinearLayersOf(model.config(), 0).back();
        EXPECT_TRUE(place.expert);
        EXPECT_TRUE(WeightsOf(model.layers()[0], place).planned->packed);
      }
      return LogitsOf(model, GoldenBatch(name), visitors);
    };
    const char* const inputs = "weights=int8/channel,linear_in=int8/token";
    EXPECT_EQ(under(inputs, 0, folder / "packed"), under(inputs, 0, {})) << name;
    // Few tokens reach an expert: they read its codes, where without the file values in floating point are made.
    const std::vector<float> values = under("weights=int8/channel", 0, {});
    EXPECT_THAT(under("weights=int8/channel", 0, folder / "alone"),
                testing::Pointwise(testing::FloatNear(2e-3f), values));
  }
}

TEST(WritePacked, APlanThatPacksNothingIsRefused) {
  for (const char* plan : {"q=int8/token,k=int8/token,probs=u8/block64,v=int8/channel", "weights=normal4/channel"}) {
    const TemporaryFolder folder;
    EXPECT_THAT(Call([&] { Under("llama-gqa", plan, folder / "packed"); }),
                ThrowsMessage<Error>(HasSubstr("got a plan that packs no weights")));
    EXPECT_THAT(folder.Names(), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace tare::write_packed_test
