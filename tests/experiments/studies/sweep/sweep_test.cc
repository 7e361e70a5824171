// SPDX-License-Identifier: Apache-2.0
// Sweeps over golden checkpoints: the cells and their figures, and above all that a sweep interrupted anywhere ends
// with the same file, byte for byte, and the same table.
#include "experiments/studies/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "experiments/observe/statistics_job.h"
#include "experiments/studies/sweep/comparison.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/sweep_cells.h"

namespace tare::sweep_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// Ids that every golden checkpoint's vocabulary has.
void PutIds(const fs::path& path, int64_t last = 5) {
  std::vector<int64_t> ids(2 * 30);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 37 % 91);
  ids.back() = last;
  WriteSafetensors(path, {{"input_ids", DType::kI64, {2, 30}, std::as_bytes(std::span(ids))}});
}

std::string Table(const std::vector<SweepCell>& cells) { return SweepTable(cells, CompareCells(cells)); }
std::string Csv(const std::vector<SweepCell>& cells) { return SweepCsv(cells, CompareCells(cells)); }

class SweepTest : public testing::Test {
 protected:
  SweepTest() {
    PutIds(folder_ / "ids.safetensors");
    options_ = GoldenSweep(folder_.path());
  }

  // Runs it; cells that were not there yet report progress.
  std::vector<SweepCell> Run(const SweepOptions& options) {
    ran_ = 0;
    heard_.clear();
    return RunSweep(options, [&](const std::string& what, int64_t runs_after) -> Progress {
      heard_.push_back(Formatted("{} after {}", runs_after, what));
      return [&](int64_t done, int64_t total, const char* unit) {
        ran_ += done == total && unit != std::string_view("layers of weights");
      };
    });
  }

  TemporaryFolder folder_;
  SweepOptions options_;
  int ran_ = 0;
  std::vector<std::string> heard_;
};

// The 16-bit cell does not depend on a granularity and runs once.
constexpr int kDistinctCells = 2 * (1 + 2 * 2);

TEST_F(SweepTest, CellsComeInOrderWithTheirFigures) {
  const std::vector<SweepCell> cells = Run(options_);
  ASSERT_EQ(cells.size(), size_t{kDistinctCells});
  EXPECT_EQ(ran_, kDistinctCells);
  size_t i = 0;
  for (const char* name : {"llama-old-config", "diffllama-mha"}) {
    Model model(GoldenFolder(name));
    const std::vector<Task> tasks = ReadTasks(options_.tasks, model, {});
    for (const Plan& plan : PlansOf(options_.question)) {
      const SweepCell& cell = cells[i++];
      EXPECT_EQ(cell.model, name);
      EXPECT_EQ(cell.task, "perplexity:ids");
      EXPECT_EQ(cell.row.granularity, RowOf(plan).granularity);
      PlanRun run(plan, Carrying::kSimulated, ModelSitesOf(model));
      EXPECT_EQ(cell.result, tasks[0].run(model, run, {}).figures);
      EXPECT_EQ(cell.key.at("plan"), plan.canonical());
      EXPECT_EQ(cell.key.at("input"), Sha256OfFile(folder_ / "ids.safetensors"));
      EXPECT_EQ(cell.key.at("weights"), model.files().ContentHash());
      EXPECT_EQ(cell.key.at("math"), "f32");
    }
  }
  EXPECT_NE(cells[0].result["nll"], cells[2].result["nll"]);
  EXPECT_EQ(heard_[0], "9 after llama-old-config f32 perplexity:ids");
  EXPECT_EQ(heard_[9], "0 after diffllama-mha attn_logits=int4/tensor perplexity:ids");
}

// 20 rows are more than the vocabulary logits that are held at a time.
TEST_F(SweepTest, PerplexityAndDivergenceOfATextFollowFromTheSamePasses) {
  PutManyIds(folder_ / "ids.safetensors", 20, 30);
  const std::string text = (folder_ / "ids.safetensors").string();
  options_.question.granularities = {"tensor"};
  options_.tasks = ParseTasks("perplexity=" + text + ",divergence=" + text);
  const std::vector<SweepCell> cells = Run(options_);
  ASSERT_EQ(cells.size(), 2u * 2 * 3);
  ASSERT_EQ(heard_.size(), 2u * 3);
  EXPECT_EQ(heard_[0], "5 after llama-old-config f32 perplexity:ids");
  for (const SweepCell& cell : cells) {
    SCOPED_TRACE(cell.model + " " + cell.Plan() + " " + cell.task);
    Model model(GoldenFolder(cell.model));
    PlanRun run(Plan::Parse(cell.Plan()), Carrying::kSimulated, ModelSitesOf(model));
    EXPECT_EQ(cell.result, cell.kind->read(text, model, {})(model, run, {}).figures);
  }
  EXPECT_GT(cells[4].result["kld"], 0.0);
  const std::string whole = GetFile(folder_ / "out" / "cells.jsonl");
  // Alone, in parts of a list that begins anew with each task: the same file.
  std::vector<fs::path> parts;
  for (size_t n = 0; n < cells.size(); ++n) {
    options_.folder = parts.emplace_back(folder_ / Formatted("part{}", n));
    options_.only = {n, n};
    EXPECT_EQ(Run(options_).at(0).result, cells[n].result);
  }
  options_.only.reset();
  options_.folder = folder_ / "merged";
  MergeSweep(options_, parts);
  EXPECT_EQ(GetFile(folder_ / "merged" / "cells.jsonl"), whole);
  // What one of the two is missing is run alone.
  options_.folder = folder_ / "part4";
  EXPECT_EQ(Run(options_).at(1).result, cells[1].result);
  EXPECT_EQ(heard_[1], "4 after llama-old-config attn_logits=int8/tensor perplexity:ids");
}

// Two sites in one folder: 16 bits are not run again, and the tables have both.
TEST_F(SweepTest, SweepsShareAFolder) {
  options_.models = {GoldenFolder("llama-old-config")};
  options_.question.granularities = {"row"};
  Run(options_);
  options_.question.site = "q";
  options_.question.granularities = {"token"};
  const std::vector<SweepCell> cells = Run(options_);
  EXPECT_EQ(ran_, 2);
  std::vector<std::string> plans;
  for (const SweepCell& cell : cells) plans.push_back(cell.Plan());
  EXPECT_THAT(plans, testing::ElementsAre("f32", "q=int8/token", "q=int4/token", "attn_logits=int8/row",
                                          "attn_logits=int4/row"));
  EXPECT_THAT(Csv(cells), HasSubstr("perplexity:ids,attn_logits,int4,row,4,,,,attn_logits=int4/row,0,perplexity,"));
  EXPECT_THAT(Table(cells), HasSubstr("\n  attn_logits=int4/row "));
}

std::string noticed;

// Cells of another limit, window or input cannot be compared.
TEST_F(SweepTest, CellsOfOtherSettingsAreNotInTheTables) {
  options_.models = {GoldenFolder("llama-old-config")};
  Run(options_);
  OnNotice([](const std::string& text) { noticed += text; });
  options_.windows.limit = 1;
  EXPECT_EQ(Run(options_).size(), 5u);
  EXPECT_THAT(noticed, HasSubstr("cells.jsonl: 5 finished runs that differ in limit are not in the tables"));
  noticed.clear();
  options_.windows.limit = 0;
  PutIds(folder_ / "ids.safetensors", 6);
  EXPECT_EQ(Run(options_).size(), 5u);
  EXPECT_THAT(noticed, HasSubstr(": 10 finished runs that differ in input"));
  OnNotice(nullptr);
}

// Nothing quantized is nothing to execute: both kinds of cells share their 16 bits.
TEST_F(SweepTest, ExecutedCellsStandBesideSimulatedOnes) {
  options_.models = {GoldenFolder("llama-old-config")};
  options_.question = {.bits = {16, 8}};
  const std::vector<SweepCell> simulated = Run(options_);
  options_.question.base = "q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel";
  options_.carrying = Carrying::kExecuted;
  const std::vector<SweepCell> cells = Run(options_);
  EXPECT_EQ(ran_, 1);
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].key, simulated[0].key);
  EXPECT_TRUE(cells[1].Executed());
  EXPECT_EQ(cells[2].key, simulated[1].key);
  EXPECT_THAT(Table(cells), HasSubstr("attn_logits=int8/row executed ^\n"));
}

// Cut at the start, inside lines, on both sides of newlines, and one byte before the end.
TEST_F(SweepTest, CutAnywhereItEndsTheSame) {
  const std::string table = Table(Run(options_)), whole = GetFile(folder_ / "out" / "cells.jsonl");
  EXPECT_EQ(std::ranges::count(whole, '\n'), kDistinctCells);
  std::set<size_t> cuts = {0, 1, whole.size() / 3, whole.size() / 2 + 7, whole.size() - 1, whole.size()};
  for (const size_t newline : {whole.find('\n'), whole.rfind('\n', whole.size() - 2)})
    cuts.insert({newline - 1, newline, newline + 1, newline + 2});
  for (const size_t cut : cuts) {
    SCOPED_TRACE(testing::Message() << "cut at byte " << cut << " of " << whole.size());
    PutFile(folder_ / "out" / "cells.jsonl", whole.substr(0, cut));
    const std::vector<SweepCell> cells = Run(options_);
    EXPECT_EQ(ran_, kDistinctCells - std::count(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(cut), '\n'));
    EXPECT_EQ(GetFile(folder_ / "out" / "cells.jsonl"), whole);
    EXPECT_EQ(Table(cells), table);
  }
}

TEST_F(SweepTest, AnInterruptedSweepContinues) {
  const std::string table = Table(Run(options_)), whole = GetFile(folder_ / "out" / "cells.jsonl");
  options_.folder = folder_ / "again";
  int finished = 0;
  const auto stop = [&](const std::string&, int64_t) -> Progress {
    return [&](int64_t, int64_t, const char* unit) {
      if (unit != std::string_view("layers of weights") && ++finished == 4) throw Error("interrupted");
    };
  };
  EXPECT_THAT(Call([&] { RunSweep(options_, stop); }), ThrowsMessage<Error>("interrupted"));
  const std::string cut = GetFile(folder_ / "again" / "cells.jsonl");
  EXPECT_EQ(std::ranges::count(cut, '\n'), 3);
  EXPECT_TRUE(whole.starts_with(cut));
  EXPECT_EQ(Table(Run(options_)), table);
  EXPECT_EQ(ran_, kDistinctCells - 3);
  EXPECT_EQ(GetFile(folder_ / "again" / "cells.jsonl"), whole);
}

TEST_F(SweepTest, CellsOfAnotherQuestionAreKept) {
  options_.models = {GoldenFolder("llama-old-config")};
  options_.question.granularities = {"row"};
  const std::vector<SweepCell> before = Run(options_);
  options_.question.bits = {16, 6, 4};
  Run(options_);
  EXPECT_EQ(ran_, 1);
  options_.windows.window = 20;
  Run(options_);
  EXPECT_EQ(ran_, 3);
  options_.windows = {.limit = 1};
  Run(options_);
  EXPECT_EQ(ran_, 3);
  options_.windows = {};
  if (HasProducts(Math::kBf16)) {
    options_.math = Math::kBf16;
    Run(options_);
    EXPECT_EQ(ran_, 3);
    options_.math = Math::kF32;
  }
  options_.question.bits = {16, 8, 4};
  const std::vector<SweepCell> after = Run(options_);
  EXPECT_EQ(ran_, 0);
  ASSERT_GE(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i].key, before[i].key);
  EXPECT_EQ(after.size(), before.size() + 1);  // 6 bits
}

// Both models' statistics, of so many of the 60 tokens.
std::vector<fs::path> PutStatistics(const fs::path& folder, const SweepOptions& options, int64_t tokens) {
  std::vector<fs::path> files;
  for (const fs::path& path : options.models) {
    Model model(path);
    const TokenInput input = LoadTokenInput(options.tasks[0].file, path, model.config().vocabulary);
    files.push_back(folder / Formatted("{}-{}.h5", model.Name(), tokens));
    CollectStatistics(model, input, CutDisjoint(input, model.config(), {.tokens = tokens}), {.sites = "attn_logits"},
                      "1", files.back(), {});
  }
  return files;
}

TEST_F(SweepTest, StaticScalesAreOfEachModelsOwnFile) {
  options_.question.granularities = {"tensor+static"};
  options_.statistics = PutStatistics(folder_.path(), options_, 60);
  const std::vector<SweepCell> cells = Run(options_);
  ASSERT_EQ(cells.size(), 6u);
  for (size_t i = 0; i < cells.size(); ++i) {
    Model model(options_.models[i / 3]);
    const fs::path& file = options_.statistics[i / 3];
    PlanRun run(Plan::Parse(cells[i].Plan()), Carrying::kSimulated, ModelSitesOf(model),
                StaticSourceOf(file, model.files()));
    EXPECT_EQ(cells[i].result, ReadTasks(options_.tasks, model, {})[0].run(model, run, {}).figures);
    EXPECT_EQ(cells[i].key.value("stats", ""), cells[i].row.bits == 16 ? "" : Sha256OfFile(file));
  }
  EXPECT_NE(cells[0].result["nll"], cells[2].result["nll"]);
}

// A static plan's figures depend on the file, so another file is another question; 16 bits have none.
TEST_F(SweepTest, OtherStatisticsRunAgain) {
  options_.question.granularities = {"tensor+static"};
  options_.statistics = PutStatistics(folder_.path(), options_, 60);
  const std::vector<SweepCell> before = Run(options_);
  EXPECT_EQ(ran_, 6);
  options_.statistics[1] = PutStatistics(folder_.path(), options_, 5)[1];
  const std::vector<SweepCell> after = Run(options_);
  EXPECT_EQ(ran_, 2);
  EXPECT_EQ(after[3].key, before[3].key);
  EXPECT_NE(after[5].result["nll"], before[5].result["nll"]);
  Run(options_);
  EXPECT_EQ(ran_, 0);
}

TEST_F(SweepTest, StatisticsOfOtherModelsAreRefusedBeforeAnyWork) {
  options_.question.granularities = {"tensor+static"};
  const auto refuses = [&](const char* why) {
    EXPECT_THAT(Call([&] { Run(options_); }), ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_FALSE(fs::exists(options_.folder));
  };
  refuses("got +static without statistics");
  options_.statistics = PutStatistics(folder_.path(), options_, 60);
  std::swap(options_.statistics[0], options_.statistics[1]);
  refuses("diffllama-mha-60.h5: statistics of weights");
  options_.statistics.pop_back();
  refuses("--stats: got 1 files, expected one per model, in the order of the 2 models");
}

TEST_F(SweepTest, AChangedInputRunsAgain) {
  options_.models = {GoldenFolder("llama-old-config")};
  const std::vector<SweepCell> before = Run(options_);
  PutIds(folder_ / "ids.safetensors", 6);
  const std::vector<SweepCell> after = Run(options_);
  EXPECT_EQ(ran_, kDistinctCells / 2);
  EXPECT_NE(after[0].key.at("input"), before[0].key.at("input"));
  EXPECT_NE(after[0].result["nll"], before[0].result["nll"]);
  PutIds(folder_ / "ids.safetensors");
  EXPECT_EQ(Run(options_)[0].result, before[0].result);
  EXPECT_EQ(ran_, 0);
}

// Weights, config.json and tokenizer all decide what a model says.
TEST_F(SweepTest, AChangedCheckpointRunsAgain) {
  EditedCheckpoint checkpoint(GoldenFolder("llama-old-config"));
  const fs::path model = folder_ / "m";
  checkpoint.Write(model);
  options_.models = {model};
  const std::vector<SweepCell> before = Run(options_);
  checkpoint.tensors.at("model.norm.weight").SetBits(3, 0x3c00);
  checkpoint.Write(model);
  Run(options_);
  EXPECT_EQ(ran_, kDistinctCells / 2);
  checkpoint.config["rope_theta"] = 10000.0;
  checkpoint.Write(model);
  const std::vector<SweepCell> after = Run(options_);
  EXPECT_EQ(ran_, kDistinctCells / 2);
  EXPECT_NE(after[0].result["nll"], before[0].result["nll"]);
  for (const char* name : {"tokenizer_config.json", "tokenizer.json"}) {
    PutFile(model / name, "{}");
    Run(options_);
    EXPECT_EQ(ran_, kDistinctCells / 2) << name;
  }
  Run(options_);
  EXPECT_EQ(ran_, 0);
}

TEST_F(SweepTest, BadQuestionsAreRefusedBeforeAnyWork) {
  const auto refuses = [&](SweepOptions options, const char* why) {
    EXPECT_THAT(Call([&] { Run(options); }), ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_EQ(ran_, 0);
    EXPECT_FALSE(fs::exists(options_.folder));
  };
  SweepOptions options = options_;
  options.question.bits = {16, 7};
  refuses(options, "--bits: got 7");
  options = options_;
  options.question.site = "";
  refuses(options, "--site: got ''");
  options = options_;
  options.question.granularities = {"row", "block64"};
  refuses(options, "block64");
  options = options_;
  options.question.site = "nothing";
  refuses(options, "nothing");
  options = options_;
  options.question.site = "cache_v";
  options.question.granularities = {"row"};
  refuses(options, "got 'row', expected one of token channel");
  options = options_;
  options.question.bits = {8, 4, 8};
  refuses(options, "8 twice");
  options = options_;
  options.question.granularities = {"row", "row"};
  refuses(options, "row twice");
  // The second plan, which no model can hold.
  options = options_;
  options.question = {.plans = {"attn_logits=int8/row", "weights=int4/group7"}};
  refuses(options, "expected a divisor");
  // Tables know models by their names.
  options = options_;
  EditedCheckpoint(GoldenFolder("diffllama-mha")).Write(folder_ / "x" / "llama-old-config");
  options.models = {GoldenFolder("llama-old-config"), folder_ / "x" / "llama-old-config" / ""};
  refuses(options, "model name llama-old-config twice");
}

TEST_F(SweepTest, FoldersThatCannotBeWrittenAreRefused) {
  PutFile(folder_ / "file", "");
  options_.folder = folder_ / "file";
  EXPECT_THAT(Call([&] { Run(options_); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("file"), HasSubstr("cannot be created as a folder"))));
  options_.folder = folder_ / "file" / "below";
  EXPECT_THROW(Run(options_), Error);
  options_.folder = folder_ / "deep" / "er" / "out";
  options_.models = {GoldenFolder("llama-old-config")};
  EXPECT_NO_THROW(Run(options_));
}

}  // namespace
}  // namespace tare::sweep_test
