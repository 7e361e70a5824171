// SPDX-License-Identifier: Apache-2.0
// The log by itself; how a sweep goes on from it: sweep_test.cc.
#include "experiments/studies/sweep/cell_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/atomic_file.h"
#include "quant/file/checked_lines.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::cell_log_test {
namespace {

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
}  // namespace tare::cell_log_test
