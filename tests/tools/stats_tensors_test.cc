// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "quant/file/json.h"
#include "quant/statistics/statistics_file.h"
#include "tests/support/arrays.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare::stats_tensors_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What a model computes, written by another command and measured as arrays, has the model's own statistics to the bit.
TEST(StatsTensors, OfADumpAreThoseOfTheModel) {
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("diffllama-gqa"), ids = model + "/expected.safetensors";
  const std::string dump = folder / "d.h5", axes = folder / "axes.json", a = folder / "a.h5", b = folder / "b.h5";
  const std::string sites = "embed,attn_logits,layer_out,final_norm", formats = "int8/row,int4/head,int4/tensor";
  ASSERT_EQ(CallTare({"dump", model, "--input", ids, "--sites", sites + ",logits", "--out", dump}).exit_code, 0);
  PutFile(axes, R"({"attn_logits": {"maps": "halves"}})");
  ASSERT_EQ(CallTare({"stats", model, "--input", ids, "--sites", sites, "--formats", formats, "--out", a}).exit_code,
            0);
  const Outcome outcome = CallTare({"stats", "--tensors", dump, "--axes", axes, "--formats", formats, "--out", b});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("skipped, no matching site: logits"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("attn_logits"), HasSubstr("74 tokens of d in 2 sequences; whole")));
  const Outcome shown = CallTare({"stats", "--tensors", dump, "--axes", axes, "--formats", formats});
  EXPECT_EQ(b + ": " + shown.out.substr(shown.out.rfind("74 tokens")), outcome.out.substr(outcome.out.rfind(b)));
  const StatisticsSet of_model = ReadStatistics(a), of_arrays = ReadStatistics(b);
  EXPECT_EQ(of_arrays.sites, of_model.sites);
  EXPECT_EQ(of_arrays.rest, of_model.rest);
  EXPECT_EQ(of_arrays.job.at("sequences_sha256"), of_model.job.at("sequences_sha256"));
  const Outcome diff = CallTare({"stats", "diff", a, b, "--draws", "20"});
  EXPECT_EQ(diff.out, "nothing differs (258 rows compared)\n");
}

// What stats show gives of the file, one has without a file, too.
TEST(StatsTensors, JsonAndCsvHaveTheRows) {
  const TemporaryFolder folder;
  const std::string captured = folder / "c.safetensors", csv = folder / "c.csv", file = folder / "s.h5";
  PutArrays(captured, {{"q", SomeArray({2, 5, 4})}, {"layer_out.3", SomeArray({5, 4})}});
  const Outcome outcome = CallTare({"stats", "--tensors", captured, "--json", "-", "--csv", csv, "--out", file});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json sites = Json::parse(outcome.out)["by_site"];
  ASSERT_EQ(sites.size(), 2u);
  for (const Json& site : sites) {
    const std::string name = site["site"];
    EXPECT_EQ(site["rows"], Json::parse(CallTare({"stats", "show", file, "--site", name, "--json", "-"}).out)["rows"]);
  }
  EXPECT_EQ(CallTare({"stats", "show", file, "--csv", folder / "show.csv"}).exit_code, 0);
  EXPECT_EQ(GetFile(csv), GetFile(folder / "show.csv"));
  EXPECT_THAT(GetFile(csv), testing::StartsWith("site,layer,head,map,"));
  EXPECT_EQ(CallTare({"stats", "--tensors", captured, "--csv", csv}).exit_code, 0) << "an output is replaced";
}

TEST(StatsTensors, APlanIsToldAsAttributeTellsIt) {
  const TemporaryFolder folder;
  const std::string captured = folder / "c.safetensors", csv = folder / "c.csv";
  PutArrays(captured,
            {{"q.2", SomeArray({21, 2, 5, 4})}, {"k.2", SomeArray({21, 2, 5, 4})}, {"v.2", SomeArray({21, 2, 5, 4})}});
  const std::string plan = "attn_logits=int4/row,v=int8/token";
  const Outcome text = CallTare({"stats", "--tensors", captured, "--plan", plan, "--csv", csv, "--threads", "1"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("head_out.2, nmse\n"), HasSubstr("\n  attn_logits "), HasSubstr("\n  v "),
                              HasSubstr("a relative error of 1 %")));
  EXPECT_THAT(GetFile(csv), HasSubstr("\nhead_out.2,nmse,taken_out,v,"));
  EXPECT_THAT(
      CallTare({"stats", "--tensors", captured, "--plan", "attn_logits=int4/row"}).out,
      testing::MatchesRegex("read as sequences 21, tokens 105, heads 2, key_heads 2, value_heads 2, width 4,\n"
                            "  maps 1, variant softmax\nhead_out.2, nmse: [0-9.e-]+ \\[.*\\] \\(95 %\\) simulated\n"
                            "intervals: Student's t over 21 sequences, corrected for skewness\nnmse: [^\n]+\n"));
  const Outcome json = CallTare({"stats", "--tensors", captured, "--plan", plan, "--json", "-"});
  const Json result = Json::parse(json.out);
  EXPECT_EQ(result["schema"], "tare.attribution/1");
  EXPECT_EQ(result["model"], "c");
  EXPECT_EQ(result["figures"][0]["parts"].size(), 2u);
  EXPECT_EQ(result["read"].dump(), R"({"sequences":21,"tokens":105,"heads":2,"key_heads":2,"value_heads":2,)"
                                   R"("width":4,"maps":1,"variant":"softmax"})");
  EXPECT_TRUE(result["figures"][0]["change"].contains("low")) << "21 sequences are enough for an interval";
}

// Neither are intervals explained, nor is an option advised that --tensors refuses.
TEST(StatsTensors, APlanOnFewSequencesSaysThatItHasNoIntervals) {
  const TemporaryFolder folder;
  const std::string captured = folder / "c.safetensors";
  PutArrays(captured,
            {{"q.2", SomeArray({3, 2, 5, 4})}, {"k.2", SomeArray({3, 2, 5, 4})}, {"v.2", SomeArray({3, 2, 5, 4})}});
  for (const char* plan : {"attn_logits=int4/row", "attn_logits=int4/row,v=int8/token"}) {
    const std::string out = CallTare({"stats", "--tensors", captured, "--plan", plan}).out;
    EXPECT_THAT(out, HasSubstr("\nno intervals of 3 sequences: expected 20 or more\n"));
    EXPECT_FALSE(out.contains("--window") || out.contains("95 %") || out.contains("standard error")) << out;
    EXPECT_EQ(out.contains("left over: the whole plan's change"), std::string_view(plan).contains(','));
  }
}

// What integer kernels lose is what simulating them loses, within a few percent.
// With maps that the heads do not have, the attention would be another.
TEST(StatsTensors, MapsOfOtherHeadsAreRefused) {
  const TemporaryFolder folder;
  const std::string captured = folder / "c.safetensors", axes = folder / "axes.json";
  PutArrays(captured,
            {{"q.2", SomeArray({2, 4, 5, 4})}, {"k.2", SomeArray({2, 4, 5, 4})}, {"v.2", SomeArray({2, 2, 5, 8})}});
  const auto with = [&](const std::string& maps, const char* plan = "attn_logits=int4/row") {
    PutFile(axes, R"({"q": {"maps": ")" + maps + R"("}, "attention": {"heads": "v1", "lambda": 0.4}})");
    return CallTare({"stats", "--tensors", captured, "--axes", axes, "--plan", plan});
  };
  EXPECT_EQ(with("interleaved").exit_code, 0) << with("interleaved").err;
  EXPECT_THAT(with("halves").err, HasSubstr("q: got \"maps\" with head 1 of map 1, expected the maps of heads v1"));
  EXPECT_THAT(with("interleaved", "q=int8/token,linear_in=int8/token").err, testing::Not(HasSubstr("maps")));
  EXPECT_THAT(with("halves", "q=int8/token,linear_in=int8/token").err,
              HasSubstr("expected the maps of heads v1"));  // first of all
}

TEST(StatsTensors, WeightsMayStandBesideALambdaAlone) {
  const TemporaryFolder folder;
  const std::string captured = folder / "c.safetensors";
  PutArrays(captured, {{"lambda.0", SomeArray({1, 4, 8, 1})}, {"q_proj.w.1", SomeArray({64, 64})}});
  const Outcome outcome = CallTare({"stats", "--tensors", captured});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nlambda "));
}

TEST(StatsTensors, APlanIsExecuted) {
  const TemporaryFolder folder;
  const std::string captured = folder / "c.safetensors";
  PutArrays(
      captured,
      {{"q.2", SomeArray({3, 2, 70, 32})}, {"k.2", SomeArray({3, 2, 70, 32})}, {"v.2", SomeArray({3, 2, 70, 32})}});
  const auto priced = [&](const std::string& plan, std::vector<std::string> more) {
    more.insert(more.begin(), {"stats", "--tensors", captured, "--plan", plan});
    return CallTare(more);
  };
  const std::string plan = "q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel";
  const Outcome executed = priced(plan, {"--executed", "--json", "-"}), simulated = priced(plan, {"--json", "-"});
  ASSERT_EQ(executed.exit_code, 0) << executed.err;
  const double expected = Json::parse(simulated.out)["figures"][0]["change"]["value"];
  EXPECT_NEAR(Json::parse(executed.out)["nmse"]["head_out.2"].get<double>(), expected, 0.1 * expected);
  EXPECT_THAT(priced(plan, {"--executed"}).out, HasSubstr("width 32,\n  maps 1, variant softmax\nhead_out.2, nmse: "));
  EXPECT_EQ(Json::parse(executed.out)["read"]["tokens"], 210);
  EXPECT_THAT(priced("cache_k=int4/token", {"--executed"}).err,
              HasSubstr("got cache_k, expected q, k, v, attn_logits"));
  EXPECT_THAT(priced("attn_logits=int4/row", {"--executed"}).err, HasSubstr("try simulating it"));
  EXPECT_THAT(CallTare({"stats", "--tensors", captured, "--executed", "--out", folder / "s.h5"}).err,
              HasSubstr("--executed: got no --plan with it"));
}

// Chunks of no rows: the HDF5 library (1.14) divides by them.
TEST(StatsTensors, AFileThatTheHdf5LibraryCrashesOnIsNamed) {
  const TemporaryFolder folder;
  const std::string forged = folder / "forged.h5";
  const hsize_t dims[] = {7, 9}, chunk[] = {3, 5};
  const hid_t file = H5Fcreate(forged.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, dims, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(create, 2, chunk);
  H5Dclose(H5Dcreate2(file, "q.0", H5T_IEEE_F32LE, space, H5P_DEFAULT, create, H5P_DEFAULT));
  H5Pclose(create), H5Sclose(space), H5Fclose(file);
  std::string bytes = GetFile(forged);
  const size_t at = bytes.find(std::string({3, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0}));
  ASSERT_NE(at, bytes.npos);
  bytes[at] = 0;
  PutFile(forged, bytes);
  const Outcome outcome = StartTare({"stats", "--tensors", forged, "--out", folder / "s.h5"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(testing::StartsWith("tare: " + forged + ": "), HasSubstr("damaged")));
}

TEST(StatsTensors, TakesItsOwnOptionsOnly) {
  const std::string ids = GoldenFolder("llama-gqa") / "expected.safetensors";
  const std::pair<std::vector<std::string>, const char*> lines[] = {
      {{"stats", "--tensors", ids, "--shard", "0/2"}, "--shard: got no --out with it, expected both"},
      {{"stats", "--tensors", ids, "--out", "s.h5", "--window", "5"},
       "--tensors: got --window too, expected one of the two; try leaving out --window"},
      {{"stats", "--tensors", ids, "--out", "s.h5", "--input", ids}, "--tensors: got --input too"},
      {{"stats", "--tensors", ids, "--plan", ""}, "--plan: got no rules, expected some for q, k, v"},
      {{"stats", "--tensors", ids, "--plan", "q=int8/token", "--out", "s.h5"}, "--plan: got --out too"},
      {{"stats", GoldenFolder("llama-gqa"), "--input", ids, "--plan", "int8"}, "--plan: got no --tensors with it"},
      {{"stats", GoldenFolder("llama-gqa"), "--input", ids, "--axes", ids},
       "--axes: got no --tensors with it, expected both"}};
  for (const auto& [line, message] : lines) {
    const Outcome outcome = CallTare(line);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace tare::stats_tensors_test
