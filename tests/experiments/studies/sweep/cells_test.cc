// SPDX-License-Identifier: Apache-2.0
// The log by itself; how a sweep goes on from it: sweep_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/studies/sweep/cells.h"
#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::cells_test {
namespace {

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

using testing::HasSubstr;
using testing::ThrowsMessage;

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

}  // namespace
}  // namespace tare::cells_test
