// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <cmath>

#include "experiments/table/table.h"

namespace tare::table_test {
namespace {

struct Deviation {
  double value = 0;
  std::optional<double> p;
};
struct Speed {
  std::string kernel, plan;
  double seconds = 0;
  int threads = 1;
  const Deviation* error = nullptr;
};

Columns<Speed> SpeedColumns() {
  Columns<Speed> columns{
      {{"kernel", "kernel", "", Side::kLeft}, &Speed::kernel},
      {{"plan", "", "", Side::kBelow, 1, 0, Files::kNone}, &Speed::plan},
      {{"seconds", "ms", "{:.3f}", Side::kRight, 1e3}, &Speed::seconds},
      {{"threads"}, [](const Speed& s) { return s.threads > 1 ? Json(s.threads) : Lacking(); }},
      {{"even", "", "", Side::kRight, 1, 0, Files::kJson}, [](const Speed& s) { return s.threads % 2 == 0; }}};
  AddPart<Speed, Deviation>(columns, "error", {{{"value"}, &Deviation::value}, {{"p"}, &Deviation::p}}, &Speed::error);
  return columns;
}

Table Speeds() {
  static const Deviation error{.value = 0.25, .p = {}};
  return TableOf(SpeedColumns(), std::vector<Speed>{{"tare", "q=int8/token,k=int8/token", 0.0015, 2, &error},
                                                    {"onednn-f32", "", NAN, 1, nullptr}});
}

TEST(Table, JsonHasTheValuesByName) {
  EXPECT_EQ(TableJson(Speeds()).dump(),
            R"([{"kernel":"tare","seconds":0.0015,"threads":2,"even":true,"error":0.25,"error_p":null},)"
            R"({"kernel":"onednn-f32","seconds":null,"even":false,"error":null,"error_p":null}])");
}

TEST(Table, CsvHasAFieldForEveryName) {
  EXPECT_EQ(TableCsv(Speeds()), "kernel,seconds,threads,error,error_p\ntare,0.0015,2,0.25,\nonednn-f32,,,,\n");
}

TEST(Table, TextHasTheColumnsWithATitle) {
  EXPECT_EQ(TableText(Speeds(), 2),
            "  kernel         ms\n"
            "  tare        1.500\n"
            "    q=int8/token,k=int8/token\n"
            "  onednn-f32\n");
}

// Each row has a value that needs its own form in CSV.
TEST(Table, CsvWritesEveryKindOfValue) {
  const Table table = TableOf(
      {{{"a", "x,y"}, {"b", {1.5, 2}}}, {{"a", "say \"x\""}, {"c", 1.0}, {"d", true}}, {{"a", "1\n2"}, {"c", 1e-5}}});
  EXPECT_EQ(TableCsv(table), "a,b,c,d\n\"x,y\",1.5 2,,\n\"say \"\"x\"\"\",,1,true\n\"1\n2\",,1e-05,\n");
  EXPECT_EQ(TableCsv(TableOf({{{"\r", 3.0}}})), "\"\r\"\n3\n");
}

TEST(Table, RowsAreAddedInTheOrderOfTheColumns) {
  Table table{.columns = {{"a"}, {"b"}}};
  table.Add({1, nullptr});
  EXPECT_EQ(table.rows[0], (Json{{"a", 1}, {"b", nullptr}}));
  EXPECT_DEATH(table.Add({1}), "size");
}

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
}  // namespace tare::table_test
