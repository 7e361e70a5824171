// SPDX-License-Identifier: Apache-2.0
// A sweep of versions of one model: changes and divergences are from the source, differences from the first version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/quantize/quantize.h"
#include "experiments/studies/sweep/comparison.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/sweep_cells.h"

namespace tare::versions_sweep_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A version of "s" over 20 windows of ten tokens, each with this loss.
SweepCell Version(const char* model, double loss, const std::string& plan = "f32") {
  SweepCell cell = Perplexity(model, plan, std::exp(loss / 10), std::vector<double>(20, loss));
  cell.key["source"] = "s";
  return cell;
}

TEST(VersionsSweep, ChangesAreFromTheSourceAndDifferencesFromTheFirstVersion) {
  const std::vector<SweepCell> cells{Version("s", 20), Version("a", 21), Version("b", 23),
                                     Version("b", 24, "q=int4/token")};
  const Comparisons all = CompareCells(cells);
  const std::vector<SweepFigure> figures = FiguresOf(cells, all);
  ASSERT_EQ(figures.size(), 4u * 2);
  EXPECT_EQ(figures[0].change, nullptr);
  EXPECT_NEAR(figures[2].change->value, std::exp(2.1) - std::exp(2), 1e-12);
  EXPECT_EQ(figures[2].drop, nullptr) << "the first version";
  EXPECT_NEAR(figures[4].change->value, std::exp(2.3) - std::exp(2), 1e-12);
  EXPECT_NEAR(figures[4].drop->value, std::exp(2.3) - std::exp(2.1), 1e-12);
  EXPECT_EQ(figures[4].drop->against, "a");
  EXPECT_NEAR(figures[6].change->value, std::exp(2.4) - std::exp(2), 1e-12);
  EXPECT_EQ(figures[6].drop, nullptr) << "the first version has no cell of that plan";
  EXPECT_THAT(SweepTable(cells, all),
              AllOf(HasSubstr("change: from s\n"), HasSubstr("change of each minus that of a\n"),
                    HasSubstr("\n  b q=int4/token "), Not(HasSubstr("16 bits"))));
  EXPECT_THAT(SweepLegend(all), HasSubstr("changes are from s,\ndifferences from versions of equally many bits, else "
                                          "from the first of all\n"));
}

TEST(VersionsSweep, VersionsOfEqualBitsAreComparedInPairs) {
  std::vector<SweepCell> cells{Version("s", 20), Version("a", 21),  Version("b3", 25),
                               Version("b", 22), Version("c3", 24), Version("c", 21.5)};
  AddVersions(Json::parse(R"([{"model": "s", "bits_per_weight": 16, "megabytes": 8}])"), cells);
  for (SweepCell& cell : cells) {
    if (cell.model == "s") continue;
    const double bits = cell.model.ends_with('3') ? 3.121 : 4.1212;
    AddVersions(Json::array({{{"model", cell.model},
                              {"bits_per_weight", 6},
                              {"megabytes", 2},
                              {"plan", "weights=int4/channel"},
                              {"calibration", cell.model == "c" ? "t.txt, sha256 77aa, 4 tokens" : ""},
                              {"quantized_bits", cell.model == "b" ? bits + 0.0005 : bits}}}),
                cells);
    cell.key["input"] = "77aa";
  }
  const Comparisons all = CompareCells(cells);
  std::vector<std::string> pairs;
  for (const SweepFigure& row : DifferencesOf(cells, all)) {
    if (row.InTables()) pairs.push_back(row.cell->model + " - " + row.drop->against);
  }
  EXPECT_THAT(pairs, testing::ElementsAre("b - a", "c3 - b3", "c - a", "c - b"));
  const std::string table = SweepTable(cells, all);
  for (const char* against : {"a", "b3", "b"})
    EXPECT_THAT(table, HasSubstr(std::string("\nchange of each minus that of ") + against + "\n"));
  EXPECT_THAT(table, AllOf(HasSubstr("  c was calibrated on this text: other texts may lose more\n"),
                           Not(HasSubstr("  b was calibrated"))));
  EXPECT_EQ(SweepJson(cells, all)["cells"][5]["differences"].size(), 2u * 2);
  EXPECT_THAT(SweepCsv(cells, all), AllOf(HasSubstr("\na,perplexity:t,,,,4.12,,,,weights=int4/channel,0,perplexity,"),
                                          HasSubstr("\ns,perplexity:t,,,,16,,,,f32,0,perplexity,")));
}

TEST(VersionsSweep, AQuantizedFileIsComparedWithItsSource) {
  const TemporaryFolder folder;
  const std::filesystem::path source = GoldenFolder("llama-mha");
  Quantize({source, Plan::Parse("weights=int4/channel"), folder / "a.h5"}, {});
  Quantize({source, Plan::Parse("weights=int8/channel"), folder / "b.h5"}, {});
  PutManyIds(folder / "ids.safetensors", 20, 30);
  const std::string text = (folder / "ids.safetensors").string();
  SweepOptions options{.models = {source, folder / "a.h5", folder / "b.h5"},
                       .source = source,
                       .question = {.plans = {"f32"}},
                       .tasks = ParseTasks("perplexity=" + text + ",divergence=" + text),
                       .folder = folder / "out"};
  const std::vector<SweepCell> cells = RunSweep(options, [](const std::string&, int64_t) { return Progress(); });
  ASSERT_EQ(cells.size(), 6u);
  EXPECT_EQ(cells[1].result.at("kld_largest"), 0.0) << "the source from itself";
  Model model(folder / "b.h5");
  const std::vector<Task> tasks = ReadTasks(options.tasks, model, {.reference = source});
  PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(model));
  EXPECT_EQ(cells[5].result, tasks[1].run(model, run, {}).figures);
  EXPECT_EQ(cells[5].key.at("source"), "llama-mha");
  EXPECT_EQ(cells[5].key.at("source_weights"), cells[0].key.at("weights"));
  const Comparisons all = CompareCells(cells);
  const std::vector<SweepFigure> figures = FiguresOf(cells, all);
  const auto of_b =
      std::ranges::find_if(figures, [&](const SweepFigure& f) { return f.cell == &cells[4] && f.change != nullptr; });
  EXPECT_EQ(of_b->change->value, cells[4].figures.list[0].value - cells[0].figures.list[0].value);
}

// Whatever the versions' plans, so that statistics are the versions' alone.
TEST(VersionsSweep, TheSourceRunsAsStoredAlone) {
  const TemporaryFolder folder;
  const std::filesystem::path source = GoldenFolder("llama-mha");
  Quantize({source, Plan::Parse("weights=int4/channel"), folder / "a.h5"}, {});
  PutManyIds(folder / "ids.safetensors", 2, 30);
  SweepOptions options{.models = {source, folder / "a.h5"},
                       .source = source,
                       .question = {.plans = {"q=int4/token", "f32"}},
                       .tasks = ParseTasks("perplexity=" + (folder / "ids.safetensors").string()),
                       .folder = folder / "out"};
  EXPECT_THAT(ListCells(options), testing::ElementsAre("llama-mha f32 perplexity:ids",
                                                       "a.h5 q=int4/token perplexity:ids", "a.h5 f32 perplexity:ids"));
  options.only = {1, 2};  // numbers of the list
  std::vector<std::string> started;
  const auto starting = [&](const std::string& what, int64_t) {
    started.push_back(what);
    return Progress();
  };
  EXPECT_EQ(RunSweep(options, starting).size(), 2u);
  options.only.reset();
  EXPECT_EQ(RunSweep(options, starting).size(), 3u);
  EXPECT_THAT(started, testing::ElementsAre("a.h5 q=int4/token perplexity:ids", "a.h5 f32 perplexity:ids",
                                            "llama-mha f32 perplexity:ids"));
  options.statistics = {"of-source.h5", "of-a.h5"};
  EXPECT_THAT(Call([&] { RunSweep(options, starting); }),
              testing::ThrowsMessage<Error>(HasSubstr("--stats: got 2 files, expected one per version")));
}

}  // namespace
}  // namespace tare::versions_sweep_test
