// SPDX-License-Identifier: Apache-2.0
// A sweep whose cells ran in parts, as on several machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/studies/sweep/sweep.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/support/call.h"
#include "tests/support/golden_sweep.h"

namespace tare::merged_sweep_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using MergedSweepTest = GoldenSweepTest;

// Scripts count the lines.
TEST_F(MergedSweepTest, ACellIsOneLineWhateverTheModelsName) {
  options_.models = {folder_ / "a\nb"};
  EXPECT_THAT(ListCells(options_), testing::Each(testing::StartsWith("a b ")));
}

// 0 to 3 here and 4 to 9 there, out of order: the bytes of one machine.
TEST_F(MergedSweepTest, PartsMergeIntoTheWhole) {
  Run(options_);
  const std::string whole = GetFile(folder_ / "out" / "cells.jsonl");
  const std::vector<std::string> list = ListCells(options_);
  ASSERT_EQ(list.size(), 10u);
  EXPECT_EQ(list[0], "llama-old-config f32 perplexity:ids");
  EXPECT_EQ(list[9], "diffllama-mha attn_logits=int4/tensor perplexity:ids");
  const auto part = [&](size_t first, size_t last, const char* name) {
    SweepOptions options = options_;
    options.only = {first, last};
    options.folder = folder_ / name;
    EXPECT_EQ(Run(options).size(), last - first + 1);
    EXPECT_EQ(ran_, static_cast<int>(last - first + 1));
    return options.folder;
  };
  const fs::path late = part(4, 9, "late"), early = part(0, 2, "early");
  options_.folder = folder_ / "merged";
  EXPECT_THAT(Call([&] { MergeSweep(options_, {late, early}); }),
              ThrowsMessage<Error>("got 9 of 10 runs, expected all; missing: 3; try tare sweep --cells with these"));
  EXPECT_THAT(Call([&] { MergeSweep(options_, {late}); }), ThrowsMessage<Error>(HasSubstr("missing: 0-3;")));
  MergeSweep(options_, {late, part(2, 3, "middle"), early});
  EXPECT_EQ(GetFile(folder_ / "merged" / "cells.jsonl"), whole);
  EXPECT_EQ(Run(options_).size(), 10u);
  EXPECT_EQ(ran_, 0);
  options_.only = {3, 10};
  EXPECT_THAT(Call([&] { Run(options_); }),
              ThrowsMessage<Error>("--cells: got 3-10, expected numbers from 0 to 9; see --list"));
}

TEST_F(MergedSweepTest, CellsOfOtherSweepsDoNotMerge) {
  options_.models = {GoldenFolder("llama-old-config")};
  options_.question = {.bits = {16}};
  Run(options_);
  const fs::path out = options_.folder;
  const auto refuses = [&](const std::string& message) {
    EXPECT_THAT(Call([&] { MergeSweep(options_, {out}); }), ThrowsMessage<Error>(HasSubstr(message)));
    EXPECT_FALSE(fs::exists(folder_ / "merged" / "cells.jsonl"));
  };
  options_.folder = folder_ / "merged";
  options_.windows.limit = 1;
  refuses("cells.jsonl: llama-old-config f32 perplexity:ids: got a run of another limit, expected runs of this sweep");
  options_.windows.limit = 0;
  options_.question.bits = {8};
  refuses("got a run of another model, plan or task");
  options_.question.bits = {16};
  const fs::path twin = folder_ / "twin";
  fs::create_directory(twin);
  const std::string line = GetFile(out / "cells.jsonl");
  std::string damaged = line;
  damaged.replace(damaged.find("\"nll\":") + 6, 1, "1");
  PutFile(twin / "cells.jsonl", damaged);
  EXPECT_THAT(Call([&] { MergeSweep(options_, {twin}); }), ThrowsMessage<Error>(HasSubstr("missing: 0; try")));
  Json other = Json::parse(line);
  other.erase("sha256");
  other["result"]["nll"] = 1;
  PutFile(twin / "cells.jsonl", CheckedLine(other) + "\n");
  EXPECT_THAT(Call([&] { MergeSweep(options_, {out, twin}); }),
              ThrowsMessage<Error>(HasSubstr("got other figures than in ")));
  EXPECT_THAT(Call([&] { MergeSweep(options_, {folder_ / "none"}); }),
              ThrowsMessage<Error>(HasSubstr("none/cells.jsonl: no such file; expected finished runs of this sweep")));
}

}  // namespace
}  // namespace tare::merged_sweep_test
