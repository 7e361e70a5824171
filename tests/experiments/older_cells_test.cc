// SPDX-License-Identifier: Apache-2.0
// Cells that an earlier version finished are found: tests/data/cells/older.jsonl is what its `tare sweep` wrote of one
// window of a golden checkpoint, with the sentence by which that version described its convention.
#include <gtest/gtest.h>

#include "experiments/studies/sweep/sweep.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"

namespace tare::older_cells_test {
namespace {

// Runs the same sweep in a folder that has this line; returns how many cells ran.
int RunsWith(const std::string& line) {
  const TemporaryFolder folder;
  PutFile(folder / "cells.jsonl", line);
  const std::filesystem::path model = GoldenFolder("llama-mha");
  const SweepOptions options{.models = {model},
                             .question = {.bits = {16}},
                             .tasks = ParseTasks("perplexity=" + (model / "expected.safetensors").string()),
                             .windows = {.window = 8, .limit = 1},
                             .folder = folder.path()};
  int runs = 0;
  const std::vector<SweepCell> cells = RunSweep(options, [&](const std::string&, int64_t) {
    ++runs;
    return Progress();
  });
  EXPECT_EQ(cells.size(), 1u);
  return runs;
}

TEST(OlderCells, AreFoundByDataWhateverTheirSentences) {
  const std::string line = GetFile(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/cells/older.jsonl");
  EXPECT_EQ(RunsWith(line), 0);
  Json changed = Json::parse(line);
  changed.erase("sha256");
  changed["key"]["convention"] = "scores each token once";
  EXPECT_EQ(RunsWith(CheckedLine(changed) + "\n"), 0);
  changed["key"]["window"] = 9;
  EXPECT_EQ(RunsWith(CheckedLine(changed) + "\n"), 1);
  EXPECT_EQ(RunsWith(""), 1);
}

}  // namespace
}  // namespace tare::older_cells_test
