// SPDX-License-Identifier: Apache-2.0
// The log by itself; how a sweep goes on from it: sweep_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "experiments/studies/sweep/cells.h"
#include "experiments/tasks/perplexity.h"
#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden_sweep.h"

namespace tare::cells_test {
namespace {

using SharingSweepTest = GoldenSweepTest;
using ::testing::ElementsAre;
using testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ThrowsMessage;

TEST(CellKey, IsTextInTheOrderOfModelPlanTask) {
  EXPECT_EQ(CellText({{"task", "t"}, {"model", "m"}, {"plan", "f32"}}), "m f32 t");
}

TEST(CellKey, IdentityHasNoSentence) {
  const Json bare{{"model", "m"}, {"weights", "1"}, {"plan", "f32"}, {"task", "t"}, {"input", "x"}, {"math", "f32"}};
  const auto with = [&](const Json& convention) {
    Json key = bare;
    key["convention"] = convention;
    return key;
  };
  const Json key = with("each token is scored once");
  EXPECT_EQ(IdentityOf(key), with("tare"));
  const Json of_other = with({{"name", "llama.cpp"}, {"bos", "before the text"}});
  EXPECT_EQ(IdentityOf(of_other), with("llama.cpp"));
  Json reworded = key;
  reworded["convention"] = "scores each token once";
  EXPECT_EQ(Clash(key, reworded), "");
  EXPECT_EQ(Clash(key, of_other), "convention");
  EXPECT_EQ(IdentityOf(bare), bare);
}

TEST(CellKey, ClashNamesTheSettingThatDiffers) {
  const Json a{{"model", "m"}, {"weights", "1"}, {"plan", "f32"}, {"task", "t"}, {"input", "x"}, {"math", "f32"}};
  const auto with = [&](const char* key, const char* value) {
    Json other = a;
    other[key] = value;
    return other;
  };
  EXPECT_EQ(Clash(a, a), "");
  EXPECT_EQ(Clash(a, with("plan", "q=int4/token")), "");
  EXPECT_EQ(Clash(a, with("math", "bf16")), "math");
  EXPECT_EQ(Clash(a, with("weights", "2")), "weights");
  EXPECT_EQ(Clash(a, with("input", "y")), "input");
  Json other_model = with("model", "n");
  other_model["weights"] = "2";
  EXPECT_EQ(Clash(a, other_model), "");
  Json of_part = a;
  of_part["from"] = "start";
  EXPECT_EQ(Clash(a, of_part), "part of the input");
  // Older cells have other windows of a long text.
  EXPECT_EQ(Clash(a, with("windows_begin", "lines")), "windows of a long text");
  Json of_other_task = with("windows_begin", "lines");
  of_other_task["task"] = "perplexity:other";
  EXPECT_EQ(Clash(a, of_other_task), "");
  // Another task takes what part of its file it likes; arithmetic is of all.
  of_other_task["limit"] = 20, of_other_task["from"] = "start", of_other_task["window"] = 64;
  Json limited = with("from", "spread");
  limited["limit"] = 0, limited["window"] = 0;
  EXPECT_EQ(Clash(limited, of_other_task), "");
  of_other_task["math"] = "bf16";
  EXPECT_EQ(Clash(limited, of_other_task), "math");
}

TEST(CellLog, KeepsCellsInTheirOrderAndSaysTheirStudy) {
  const TemporaryFolder folder;
  const std::vector<TaskSpec> none;
  const auto key = [](int n) { return Json{{"plan", "f32"}, {"task", "x"}, {"n", n}}; };
  {
    CellLog log(folder / "out", {"sweep", none});
    log.Append(key(2), {{"nll", 2}});
    log.Append(key(1), {{"nll", 1}});
    EXPECT_EQ(*log.Find(key(2)), (Json{{"nll", 2}}));
  }
  const std::filesystem::path file = folder / "out/cells.jsonl";
  EXPECT_EQ(ReadLines(file).at(0),
            CheckedLine({{"schema", "tare.cell/2"}, {"study", "sweep"}, {"key", key(2)}, {"result", {{"nll", 2}}}}));
  const CellLog again(folder / "out", {"sweep", none});
  EXPECT_EQ(again.keys(), (std::vector<Json>{key(2), key(1)}));
  EXPECT_EQ(again.Find(key(3)), nullptr);
  EXPECT_THAT(Call([&] { ReadCells(folder / "out", {"search", none}); }),
              ThrowsMessage<Error>(HasSubstr("got the runs of `tare sweep`, expected those of `tare search`")));
}

class SharedLayersTest : public testing::Test {
 protected:
  SharedLayers Of(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) plans_.push_back(Plan::Parse(text));
    std::vector<SharingRun> runs;
    for (const Plan& plan : plans_) runs.push_back({nullptr, &plan});
    return SharedLayers(runs, 4);
  }

  std::vector<Plan> plans_;
};

TEST_F(SharedLayersTest, OfPartsByLayer) {
  const SharedLayers shared = Of({"f32", "q=int4/token", "q[l0]=int4/token", "q[l2]=int4/token", "q[l3]=int4/token",
                                  "q=int4/token,q[l0]=f32", "q=int4/token,q[l2]=f32", "q=int4/token,q[l3]=f32"});
  const std::vector<int> before{0, 0, 0, 2, 3, 0, 2, 3};
  for (size_t run = 0; run < before.size(); ++run) EXPECT_EQ(shared.Before(run), before[run]) << run;
  EXPECT_THAT(shared.Of(0, 9).kept, ElementsAre(2, 3));
  EXPECT_THAT(shared.Of(1, 9).kept, ElementsAre(2, 3));
  for (size_t run = 2; run < before.size(); ++run) EXPECT_THAT(shared.Of(run, 9).kept, IsEmpty()) << run;
  // The third run is the last but two that goes on from f32.
  const auto of_f32 = [&](size_t run) { return shared.Of(run, 9).expected.contains({2, shared.Of(0, 9).names[2]}); };
  EXPECT_TRUE(of_f32(4));
  EXPECT_FALSE(of_f32(5));
}

TEST_F(SharedLayersTest, TheOutputIsBehindAllLayersAndTheEmbeddingBeforeThem) {
  const SharedLayers shared = Of({"f32", "lm_head.in=int8/token", "embed=int8/token", "lm_head.w=int8/channel"});
  EXPECT_EQ(shared.Before(1), 4);
  EXPECT_EQ(shared.Before(2), 0);
  EXPECT_EQ(shared.Before(3), 4);
  EXPECT_THAT(shared.Of(0, 9).kept, ElementsAre(4));
}

TEST_F(SharedLayersTest, RulesOfHeadsReachAllTheirLayers) {
  const SharedLayers shared =
      Of({"f32", "q[h1]=int4/token", "q[l2,h1]=int4/token", "q[l1-2,h0]=int4/token", "q[l2,h1]=f32"});
  EXPECT_EQ(shared.Before(1), 0);
  EXPECT_EQ(shared.Before(2), 2);
  EXPECT_EQ(shared.Before(3), 1);
  EXPECT_EQ(shared.Before(4), 2);  // its text differs, though it says nothing
}

// Where only one of three wanted streams may be kept, it is the middle one.
TEST_F(SharedLayersTest, FewerStreamsAreSpread) {
  const SharedLayers shared = Of({"f32", "q[l1]=int4/token", "q[l2]=int4/token", "q[l3]=int4/token"});
  EXPECT_THAT(shared.Of(0, 3).kept, ElementsAre(1, 2, 3));
  EXPECT_THAT(shared.Of(0, 2).kept, ElementsAre(1, 3));
  EXPECT_THAT(shared.Of(0, 1).kept, ElementsAre(2));
  EXPECT_THAT(shared.Of(0, 0).kept, IsEmpty());
}

// Cells of one plan each share nothing. The plan of the last layer follows one that changes all layers: what that left
// of phi4flash's keys, values and memories is not what its last layer reads.
TEST_F(SharingSweepTest, HasTheBytesOfCellsThatRunAlone) {
  for (const char* model : {"llama-mha", "diffllama-gqa", "gpt-oss", "phi4flash", "mixtral"}) {
    SCOPED_TRACE(model);
    options_.models = {GoldenFolder(model)};
    options_.tasks = ParseTasks(Formatted("divergence={0},perplexity={0}", (folder_ / "ids.safetensors").string()));
    const std::string whole = "linear_in=int4/tensor,v=int4/token";
    const int last = LoadConfig(GoldenFolder(model)).layers - 1;
    const std::vector<std::string> plans{"f32",
                                         whole,
                                         Formatted("linear_in[l{}]=int4/tensor", last),
                                         "lm_head.in=int4/token",
                                         "linear_in[l1]=int6/tensor",
                                         whole + ",linear_in[l1]=f32"};
    options_.question = {.plans = plans};
    options_.folder = folder_ / Formatted("{}-together", model);
    std::vector<std::string> together, alone;
    for (const SweepCell& cell : Run(options_)) together.push_back(cell.key.dump() + cell.result.dump());
    for (const TaskSpec& task : std::vector(options_.tasks)) {
      options_.tasks = {task};
      for (const std::string& plan : plans) {
        options_.question = {.plans = {plan}};
        options_.folder = folder_ / Formatted("{}-{}", model, alone.size());
        const SweepCell cell = Run(options_).at(0);
        alone.push_back(cell.key.dump() + cell.result.dump());
      }
    }
    EXPECT_EQ(together, alone);
  }
}

}  // namespace

}  // namespace tare::cells_test
