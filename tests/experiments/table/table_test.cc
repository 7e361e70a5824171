// SPDX-License-Identifier: Apache-2.0
#include "experiments/table/table.h"

#include <gtest/gtest.h>

#include <cmath>

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

// Of each pair one value is like none other in CSV.
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

}  // namespace
}  // namespace tare::table_test
