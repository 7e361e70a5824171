// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "experiments/table/table.h"

namespace tare::text_test {
namespace {

Column Left(const char* title, size_t width = 0) {
  return {.name = title, .title = title, .side = Side::kLeft, .width = width};
}
Column Right(const char* title) { return {.name = title, .title = title}; }

TEST(TableText, ColumnsAreAsWideAsTheirWidestCell) {
  Table table{.columns = {Left("site"), Right("n"), Right("median")}};
  table.Add({"attn_logits", 12, nullptr});
  table.Add({"q", 345, 0.5});
  EXPECT_EQ(TableText(table),
            "site           n  median\n"
            "attn_logits   12\n"
            "q            345     0.5\n");
  table.columns[2].none = "-";
  EXPECT_EQ(TableText(table).substr(25, 25), "attn_logits   12       -\n");
  EXPECT_EQ(TableText({}), "");
}

// 39 and 39 with two blanks are 80; one letter more, and they stand one apart.
TEST(TableText, ColumnsStandCloserWhereTheyWouldBeTooWide) {
  const std::string wide(39, 'x');
  Table table{.columns = {{.name = "a", .title = wide, .side = Side::kLeft}, {.name = "b", .title = wide}}};
  EXPECT_EQ(TableText(table), wide + "  " + wide + "\n");
  table.columns[1].title += "x";
  EXPECT_EQ(TableText(table), wide + " " + wide + "x\n");
}

TEST(TableText, LongTextRunsOverEmptyCellsOrStandsAbove) {
  Table table{.columns = {Left("plan", 6), Right("first"), Right("second")}};
  table.Add({"f32", 1, 2});
  table.Add({"f32 long", nullptr, 3});
  table.Add({"f32 much longer", 4, nullptr});
  EXPECT_EQ(TableText(table, 2),
            "  plan    first  second\n"
            "  f32         1       2\n"
            "  f32 long            3\n"
            "  f32 much longer\n"
            "              4\n");
  table.rows.resize(1);
  const std::string rule = "0123456789012345678901234567890123456789";
  table.Add({rule + "," + rule, 5, 6});
  EXPECT_EQ(TableText(table, 2).substr(48), "  " + rule + ",\n  " + rule + "\n              5       6\n");
}

TEST(TableText, RowsStandUnderWhatTheyHaveInCommon) {
  Table table{
      .columns = {{.name = "task", .side = Side::kAbove},
                  {.name = "model", .side = Side::kAbove},
                  Left("plan"),
                  Right("n")},
  };
  table.Add({"t", "a", "f32", 1});
  table.Add({"t", "a", "int8", 10});
  table.Add({"t", nullptr, "f32", 2});
  EXPECT_EQ(TableText(table, 1), "\nt, a\n plan   n\n f32    1\n int8  10\n\nt\n plan   n\n f32    2\n");
}

}  // namespace
}  // namespace tare::text_test
