// SPDX-License-Identifier: Apache-2.0
// Sweeps over a tower of CLIP, whose figures depend on the tower beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string_view>

#include "experiments/studies/sweep/sweep.h"
#include "quant/base/message.h"
#include "tests/support/checkpoint.h"
#include "tests/support/clip_items.h"
#include "tests/support/golden.h"

namespace tare::sweep_other_tower_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A tower's figures depend on the other tower, which runs as stored: another one, or another configuration of the same
// weights, makes other cells.
TEST(SweepOtherTowerTest, CellsAreOfTheOtherTowerToo) {
  const TemporaryFolder folder;
  SweepOptions options;
  int ran = 0;
  const auto run = [&] {
    ran = 0;
    return RunSweep(options, [&](const std::string&, int64_t) -> Progress {
      return [&](int64_t done, int64_t total, const char* unit) {
        ran += done == total && unit != std::string_view("layers of weights");
      };
    });
  };
  for (const std::string tower : {"vision", "text"}) fs::copy(GoldenFolder("clip-" + tower), folder / ("b16-" + tower));
  PutClipItems(folder / "items.safetensors", {0, 1, 2});
  options.models = {folder / "b16-vision"};
  options.tasks = ParseTasks("zero_shot=" + (folder / "items.safetensors").string());
  options.question = {.bits = {16, 8}};
  options.folder = folder / "out";
  const std::vector<SweepCell> first = run();
  EXPECT_EQ(ran, 2);
  run();
  EXPECT_EQ(ran, 0);
  static std::string noticed;
  OnNotice([](const std::string& text) { noticed += text; });
  const auto runs_again = [&](const EditedCheckpoint& text) {
    text.Write(folder / "b16-text");
    noticed.clear();
    const std::vector<SweepCell> again = run();
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(again.size(), 2u);  // those of the earlier tower are not in the tables
    EXPECT_NE(again[0].key, first[0].key);
    EXPECT_THAT(noticed, HasSubstr("finished runs that differ in other_tower are not in the tables"));
  };
  EditedCheckpoint text(folder / "b16-text");
  text.config["layer_norm_eps"] = 0.5;
  runs_again(text);
  text.tensors.begin()->second.SetBits(0, 0);
  runs_again(text);
  OnNotice(nullptr);
}

}  // namespace
}  // namespace tare::sweep_other_tower_test
