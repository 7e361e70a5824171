// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/figures.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/file/sha256.h"
#include "quant/statistics/statistics_file.h"
#include "tests/support/random_statistics.h"
#include "tests/support/report_material.h"

namespace tare::material_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MaterialTest : public testing::Test {
 protected:
  std::string Put(const std::string& name, const std::string& text) {
    PutFile(folder_ / name, text);
    return folder_ / name;
  }
  std::string Refusal(const std::vector<std::filesystem::path>& files) {
    try {
      ReadMaterial(files);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }
  TemporaryFolder folder_;
};

TEST_F(MaterialTest, ASweepIsReadFromItsFolderOrItsJson) {
  std::filesystem::create_directory(folder_ / "sweep");
  const std::string sweep = SweepOf({CellsOf("m", {{16, 20}, {4, 25}})}).dump();
  Put("sweep/table.json", sweep);
  const Material material = ReadMaterial({folder_ / "sweep"});
  ASSERT_EQ(material.sweeps.at(0).cells.size(), 2u);
  EXPECT_EQ(material.sweeps[0].cells[1].row.bits, 4);
  EXPECT_EQ(material.sweeps[0].cells[1].figures.list[0].value, 25);
  EXPECT_EQ(material.files.at(0).schema, "tare.sweep/2");
  EXPECT_EQ(ReadMaterial({Put("s.json", sweep)}).sweeps.size(), 1u);
}

TEST_F(MaterialTest, AComparisonIsItsOutliersAndItsSweep) {
  const Json outliers = OutliersOf("m", 20, 60);
  Json sweep = SweepOf({CellsOf("m", {{16, 20}, {4, 25}})});
  sweep["schema"] = "tare.sweep/3";
  const Material whole = ReadMaterial(
      {Put("c.json", Json{{"schema", "tare.compare/1"}, {"outliers", {outliers}}, {"sweep", sweep}}.dump())});
  std::filesystem::create_directory(folder_ / "compared");
  Put("compared/table.json", sweep.dump());
  Put("compared/outliers.jsonl", Json{{"key", 1}, {"figures", outliers}}.dump() + "\n");
  const Material folder = ReadMaterial({folder_ / "compared"});
  for (const Material* material : {&whole, &folder}) {
    ASSERT_EQ(material->documents.size(), 1u);
    EXPECT_EQ(material->documents[0].json, outliers);
    EXPECT_EQ(material->sweeps.at(0).cells.size(), 2u);
  }
  const std::string line = CheckedLine({{"schema", "tare.outliers/1"}, {"key", 1}, {"figures", outliers}});
  Put("compared/outliers.jsonl", line + "\n");
  EXPECT_EQ(ReadMaterial({folder_ / "compared"}).documents.at(0).json, outliers);
  std::string damaged = line;
  damaged[line.find("20")] = '7';
  Put("compared/outliers.jsonl", damaged + "\n");
  EXPECT_THAT(Refusal({folder_ / "compared"}),
              HasSubstr("line 1: does not match its hash; try tare compare with this"));
  const Json blame{{"schema", "tare.attribution/1"}, {"model", "m"}, {"figures", Json::array()}};
  Put("compared/compare.json", Json{{"schema", "tare.compare/1"},
                                    {"outliers", {outliers}},
                                    {"sweep", sweep},
                                    {"attribution", {{"models", {blame, blame}}}}}
                                   .dump());
  EXPECT_EQ(ReadMaterial({folder_ / "compared"}).documents.size(), 3u);
}

TEST_F(MaterialTest, UnusableFilesAreNamedWithAdvice) {
  EXPECT_THAT(Refusal({folder_ / "gone"}), HasSubstr("gone: got no such file or folder"));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(Refusal({folder_ / "pipe"}), HasSubstr("pipe: got a pipe or a device, expected a file or a folder"));
  EXPECT_THAT(Refusal({Put("a.json", R"({"schema":"tare.plan/1"})")}),
              AllOf(HasSubstr("a.json: got the schema tare.plan/1"),
                    HasSubstr("results of tare stats, sweep, compare, judge, eval,")));
  EXPECT_THAT(Refusal({Put("a.json", "{}")}), HasSubstr("got the schema none"));
  EXPECT_THAT(Refusal({Put("a.json", "[]")}), HasSubstr("got an empty list"));
  EXPECT_THAT(Refusal({Put("a.json", R"({"schema":"tare.sweep/2","cells":[]})")}),
              HasSubstr("got a sweep without a finished run"));
  EXPECT_THAT(Refusal({Put("a.json", R"({"schema":"tare.sweep/2","cells":[{"key":1}]})")}),
              HasSubstr("was it made by another version"));
  EXPECT_THAT(Refusal({Put("a.json", R"({"schema":"tare.sweep/2"})")}), HasSubstr("was it made by another version"));
  EXPECT_THAT(Refusal({folder_.path()}), HasSubstr("got a folder without results"));
  Put("cells.jsonl", "");
  EXPECT_THAT(Refusal({folder_.path()}), AllOf(HasSubstr("a command that is not finished"), HasSubstr("`attribute`")));
  const std::string once = Put("once.json", SweepOf({CellsOf("m", {{16, 20}})}).dump());
  EXPECT_THAT(Refusal({once, once}), HasSubstr("given twice"));
}

TEST_F(MaterialTest, OneNameIsOneModel) {
  const std::string a = Put("a.json", SweepOf({CellsOf("m", {{16, 20}}, "q", "aaaa")}).dump()),
                    b = Put("b.json", SweepOf({CellsOf("m", {{16, 20}}, "q", "bbbb")}).dump());
  EXPECT_THAT(Refusal({a, b}), AllOf(HasSubstr("b.json: got weights bbbb of m"), HasSubstr("two models of one name")));
}

TEST_F(MaterialTest, StatisticsAreWholeAndOfOneFilePerModel) {
  StatisticsSet set = RandomStatistics();
  WriteStatistics(set, folder_ / "part.h5");
  EXPECT_THAT(Refusal({folder_ / "part.h5"}), AllOf(HasSubstr("got 2 of the 3 parts"), HasSubstr("tare stats merge")));
  set.units = std::vector<uint8_t>(9, 0);
  set.units[4] = 1;
  WriteStatistics(set, folder_ / "part.h5");
  EXPECT_THAT(Refusal({folder_ / "part.h5"}), HasSubstr("got 1 of the 9 parts"));
  set.units = {1, 1, 1};
  WriteStatistics(set, folder_ / "a.h5");
  WriteStatistics(set, folder_ / "b.h5");
  const Material material = ReadMaterial({folder_ / "a.h5"});
  ASSERT_EQ(material.statistics.size(), 1u);
  EXPECT_EQ(material.statistics[0].set, set);
  EXPECT_THAT(Refusal({folder_ / "a.h5", folder_ / "b.h5"}), HasSubstr("try one file per model"));
}

TEST_F(MaterialTest, AnotherHdf5FileIsNamedWithWhatAReportTakes) {
  Hdf5Writer file(folder_ / "q.h5");
  file.SetAttribute("", "schema", "tare.quantized/2");
  file.Commit();
  EXPECT_THAT(Refusal({folder_ / "q.h5"}),
              AllOf(HasSubstr("got the schema tare.quantized/2"), HasSubstr("try `tare sweep ")));
}

TEST_F(MaterialTest, DocumentsKeepTheOrderOfModels) {
  const auto evaluation = [&](const std::string& model, const std::string& plan) {
    return Put(
        model + plan,
        Json{
            {"schema", "tare.eval/1"}, {"model", model}, {"weights_sha256", "aa" + model}, {"plan", plan}, {"limit", 0}}
            .dump());
  };
  const Material material =
      ReadMaterial({evaluation("z", "1"), evaluation("a", "1"), evaluation("z", "2"), evaluation("a", "2")});
  std::string order;
  for (const Document& one : material.documents) order += one.json["model"].get<std::string>() + " ";
  EXPECT_EQ(order, "z z a a ");
  EXPECT_FALSE(std::ranges::contains(material.files[0].says, std::string("limit"),
                                     &std::pair<std::string, std::string>::first));  // 0: all
}

TEST_F(MaterialTest, MissingMembersAreNamedWithTheirFile) {
  const Material material = ReadMaterial({Put("odd.json", R"({"schema":"tare.bench/1"})")});
  try {
    material.ForEach("tare.bench/1", [](const Json& json) { (void)json.at("cases"); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("odd.json: "), HasSubstr("cases")));
  }
}

}  // namespace
}  // namespace tare::material_test
