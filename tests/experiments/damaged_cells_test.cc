// SPDX-License-Identifier: Apache-2.0
// Lines of a sweep's cells.jsonl that are damaged, foreign, of an earlier version, or of another study.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/studies/sweep/comparison.h"
#include "experiments/studies/sweep/sweep.h"
#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/sha256.h"
#include "tests/support/call.h"
#include "tests/support/golden_sweep.h"

namespace tare::damaged_cells_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string Table(const std::vector<SweepCell>& cells) { return SweepTable(cells, CompareCells(cells)); }

std::string noticed;

using DamagedCellsTest = GoldenSweepTest;

// The line's object without its hash.
nlohmann::ordered_json ObjectOf(const std::string& line) {
  nlohmann::ordered_json object = nlohmann::ordered_json::parse(line);
  object.erase("sha256");
  return object;
}

TEST_F(DamagedCellsTest, LinesThatAreNoCellsAreRefusedByNumber) {
  options_.models = {GoldenFolder("llama-old-config")};
  options_.question.granularities = {"row"};
  Run(options_);
  const std::string whole = GetFile(folder_ / "out" / "cells.jsonl");
  const std::string first = whole.substr(0, whole.find('\n') + 1);
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::ordered_json line = ObjectOf(first);
    line[key] = value;
    return CheckedLine(line);
  };
  for (const std::string& bad : {std::string("x"), std::string(""), std::string("[1]"), std::string("3"),
                                 with("schema", "tare.cell/3"), with("schema", 5), with("result", 5), with("key", 5)}) {
    const std::string edited = first + bad + "\n" + whole.substr(first.size());
    PutFile(folder_ / "out" / "cells.jsonl", edited);
    EXPECT_THAT(Call([&] { Run(options_); }),
                ThrowsMessage<Error>(
                    AllOf(HasSubstr("cells.jsonl: line 2"), HasSubstr("something else, expected a finished "))))
        << bad;
    EXPECT_EQ(GetFile(folder_ / "out" / "cells.jsonl"), edited);
  }
}

// Whatever byte is changed, the table is the same: every line carries its hash.
TEST_F(DamagedCellsTest, DamagedCellsRunAgain) {
  options_.models = {GoldenFolder("llama-old-config")};
  options_.question.granularities = {"row"};
  const std::string table = Table(Run(options_)), whole = GetFile(folder_ / "out" / "cells.jsonl");
  ASSERT_EQ(std::ranges::count(whole, '\n'), 3);
  OnNotice([](const std::string& text) { noticed += text; });
  std::vector<std::pair<size_t, char>> changes;
  for (const char* place : {"cell/2", "\"study", "\"nll\":", "\"sha256\":\"", "\"}\n"}) {
    const size_t at = whole.find(place);
    ASSERT_NE(at, whole.npos) << place;
    changes.insert(changes.end(), {{at, 'x'}, {at + std::string(place).size() - 1, '1'}});
  }
  for (size_t at = 0; (at = whole.find_first_of("0123456789", at)) != whole.npos; at += 97)
    changes.emplace_back(at, whole[at] == '9' ? '8' : '9');
  for (const auto& [at, byte] : changes) {
    if (whole[at] == byte) continue;
    SCOPED_TRACE(testing::Message() << "byte " << at << " changed to " << byte);
    std::string damaged = whole;
    damaged[at] = byte;
    PutFile(folder_ / "out" / "cells.jsonl", damaged);
    EXPECT_EQ(Table(Run(options_)), table);
    EXPECT_EQ(ran_, whole[at] == '\n' ? 2 : 1);
    Run(options_);
    EXPECT_EQ(ran_, 0);
  }
  EXPECT_THAT(noticed, HasSubstr("cells.jsonl: line 1: does not match its hash; what was there counts as not run"));
  OnNotice(nullptr);
}

TEST_F(DamagedCellsTest, CellsOfVersionsBeforeTheHashAreTakenAsTheyStand) {
  options_.models = {GoldenFolder("llama-old-config")};
  options_.question.granularities = {"row"};
  const std::string table = Table(Run(options_)), file = folder_ / "out" / "cells.jsonl";
  std::string older;
  for (const std::string& line : ReadLines(file)) {
    nlohmann::ordered_json object = ObjectOf(line);
    object["schema"] = "tare.cell/1";
    object.erase("study");
    older += object.dump() + "\n";
  }
  PutFile(file, older);
  OnNotice([](const std::string& text) { noticed += text; });
  EXPECT_EQ(Table(Run(options_)), table);
  OnNotice(nullptr);
  EXPECT_EQ(ran_, 0);
  EXPECT_THAT(noticed, HasSubstr("3 lines of an earlier version without a hash, taken as they stand"));
  EXPECT_EQ(GetFile(file), older);
  // What an earlier version did not write is no cell of its.
  PutFile(file, "{\"schema\":\"tare.cell/1\",\"key\":{}}\n" + older);
  EXPECT_EQ(Table(Run(options_)), table);
  EXPECT_EQ(ran_, 0);
  EXPECT_EQ(GetFile(file), older);
}

TEST_F(DamagedCellsTest, AFolderIsOfOneStudy) {
  options_.models = {GoldenFolder("llama-old-config")};
  options_.question.granularities = {"row"};
  options_.study = "search";
  Run(options_);
  const std::string cells = GetFile(folder_ / "out" / "cells.jsonl");
  options_.study = "sweep";
  const auto refused =
      ThrowsMessage<Error>(HasSubstr("cells.jsonl: got the runs of `tare search`, expected those of `tare sweep`"));
  EXPECT_THAT([&] { Run(options_); }, refused);
  EXPECT_EQ(GetFile(folder_ / "out" / "cells.jsonl"), cells);
  options_.folder = folder_ / "merged";
  EXPECT_THAT([&] { MergeSweep(options_, {folder_ / "out"}); }, refused);
  EXPECT_FALSE(fs::exists(folder_ / "merged"));
}

}  // namespace
}  // namespace tare::damaged_cells_test
