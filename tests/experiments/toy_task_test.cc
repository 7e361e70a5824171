// SPDX-License-Identifier: Apache-2.0
// A new task is one record and what it points to, defined here. It appears among the parsed names, in eval's JSON, line
// and records, and in a sweep's cells, tables and resumption, while no other code knows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/studies/sweep/comparison.h"
#include "experiments/studies/sweep/sweep.h"
#include "experiments/tasks/evaluation.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::toy_task_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

int letters_runs = 0;

// An item is a letter. Unquantized models know every letter, others know vowels.
RunTask ReadLetters(const std::filesystem::path& file, const Model&, const TaskOptions& options) {
  return [letters = GetFile(file).substr(0, static_cast<size_t>(options.windows.limit))](Model&, PlanRun& run,
                                                                                         const Progress& progress) {
    ++letters_runs;
    TaskResult result;
    std::string known;
    for (const char letter : letters) {
      known += run.plan().canonical() == "f32" || std::string_view("aeiou").contains(letter) ? '1' : '0';
      result.records.push_back({{"letter", std::string(1, letter)}, {"known", known.back() == '1'}});
    }
    const auto n = static_cast<double>(letters.size()), mean = static_cast<double>(std::ranges::count(known, '1')) / n;
    Report(progress, std::ssize(letters), std::ssize(letters), "letters");
    result.figures = {{"known", mean},
                      {"known_error", std::sqrt(mean * (1 - mean) / (n - 1))},
                      {"which", known},
                      {"letters", letters.size()},
                      {"luck", 7.0}};
    return result;
  };
}

constexpr FigureKeys kLetterFigures[] = {{.name = "known", .error = "known_error", .outcomes = "which"},
                                         {.name = "luck", .format = ".1f", .in_tables = nullptr}};
constexpr TaskKind kLettersTask{.name = "letters",
                                .file = "LETTERS.txt",
                                .read = ReadLetters,
                                .figures = kLetterFigures,
                                .count = "letters",
                                .unit = "letter",
                                .convention = [](const WindowOptions&) { return Json{{"alphabet", "latin"}}; }};
constexpr const TaskKind* kKinds[] = {&kLettersTask};

class ToyTaskTest : public testing::Test {
 protected:
  ToyTaskTest() {
    PutFile(folder_ / "abc.txt", "aeixy: has no effect without");
    specs_ = ParseTasks("letters=" + (folder_ / "abc.txt").string(), kKinds);
  }

  std::vector<SweepCell> Sweep() {
    return RunSweep({.models = {model_},
                     .question = {.bits = {16, 8}},
                     .tasks = specs_,
                     .windows = {.limit = 5},
                     .folder = folder_ / "out"},
                    [](const std::string&, int64_t) { return Progress(); });
  }

  const TemporaryFolder folder_;
  const std::filesystem::path model_ = GoldenFolder("llama-old-config");
  std::vector<TaskSpec> specs_;
};

TEST_F(ToyTaskTest, IsParsedByItsName) {
  EXPECT_EQ(specs_[0].Name(), "letters:abc");
  EXPECT_EQ(TaskUsage(", ", kKinds), "letters=LETTERS.txt");
  EXPECT_THAT(Call([] { ParseTasks("perplexity=x", kKinds); }),
              ThrowsMessage<Error>(HasSubstr("got 'perplexity=x', expected letters=LETTERS.txt")));
}

TEST_F(ToyTaskTest, ComesOutOfEval) {
  Model model(model_);
  PlanRun run(Plan::Parse("attn_logits=int8/row"), Carrying::kSimulated, ModelSitesOf(model));
  Evaluation evaluation(model, run, {.limit = 5}, kKinds);
  EXPECT_EQ(
      evaluation.Run(ReadTasks(specs_, model, {.windows = {.limit = 5}, .reference = {}, .other_tower = {}})[0], {}),
      "letters:abc                  known 0.60 [0.23, 0.88]\n"
      "                             luck 7.0   5 letters");
  EXPECT_EQ(evaluation.json()["letters_convention"]["alphabet"], "latin");
  EXPECT_EQ(evaluation.json()["tasks"]["letters:abc"].dump(),
            Json({{"known", 0.6},
                  {"known_error", std::sqrt(0.6 * (1 - 0.6) / 4)},
                  {"which", "11100"},
                  {"letters", 5},
                  {"luck", 7.0},
                  {"input_sha256", Sha256OfFile(folder_ / "abc.txt")}})
                .dump());
  EXPECT_THAT(evaluation.records(), HasSubstr("\n{\"task\":\"letters:abc\",\"letter\":\"x\",\"known\":false}\n"));
}

std::string Csv(const std::vector<SweepCell>& cells) { return SweepCsv(cells, CompareCells(cells)); }

// The change is d = 0 0 0 -1 -1: s^2 = (2 - 5 * 0.16) / 4 = 0.3, error sqrt(0.3 / 5). Intervals: inference_test.cc.
TEST_F(ToyTaskTest, ComesOutOfASweepAndItsTables) {
  const std::vector<SweepCell> cells = Sweep();
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[1].task, "letters:abc");
  EXPECT_EQ(cells[1].key["alphabet"], "latin");
  EXPECT_EQ(cells[1].result["which"], "11100");
  const std::string table = SweepTable(cells, CompareCells(cells)), csv = Csv(cells);
  EXPECT_THAT(table, HasSubstr("letters:abc, known\n"));
  EXPECT_THAT(table, HasSubstr("1.00 [0.57, 1.00]"));
  EXPECT_THAT(table, HasSubstr("0.60 [0.23, 0.88]       -0.40 [-0.80, +0.23] ?\n"));
  EXPECT_THAT(table, Not(HasSubstr("luck")));
  EXPECT_THAT(csv, HasSubstr("llama-old-config,letters:abc,,,,16,,,,f32,0,known,1,0,0.5655"));
  EXPECT_THAT(csv, HasSubstr(Formatted("attn_logits,int8,row,8,,,,attn_logits=int8/row,0,known,0.6,{},0.2307",
                                       std::sqrt(0.6 * (1 - 0.6) / 4))));
  EXPECT_THAT(csv, HasSubstr(Formatted(",-0.4,{},-0.804", std::sqrt(0.3 / 5))));
}

TEST_F(ToyTaskTest, IsResumed) {
  const std::string csv = Csv(Sweep());
  letters_runs = 0;
  EXPECT_EQ(Csv(Sweep()), csv);
  EXPECT_EQ(letters_runs, 0);
  const std::filesystem::path cells = folder_ / "out" / "cells.jsonl";
  const std::string whole = GetFile(cells);
  PutFile(cells, whole.substr(0, whole.size() - 5));
  EXPECT_EQ(Csv(Sweep()), csv);
  EXPECT_EQ(letters_runs, 1);
  EXPECT_EQ(GetFile(cells), whole);
  std::string damaged = whole;
  damaged.replace(damaged.find("known_error"), 5, "knows");
  PutFile(cells, damaged);
  letters_runs = 0;
  EXPECT_EQ(Csv(Sweep()), csv);
  EXPECT_EQ(letters_runs, 1);
}

}  // namespace
}  // namespace tare::toy_task_test
