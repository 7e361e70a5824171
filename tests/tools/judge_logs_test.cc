// SPDX-License-Identifier: Apache-2.0
// tare judge on logs of lm-evaluation-harness: its own (tests/data/harness), and made ones of forty documents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "experiments/text/utf8.h"
#include "tests/support/call_tare.h"
#include "tests/support/judged.h"

namespace tare::judge_logs_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const std::string kLogs = TARE_SOURCE_DIR "/tests/data/harness/";

class JudgeLogsTest : public testing::Test {
 protected:
  JudgeLogsTest() { PutFile(other_, "no log"); }

  TemporaryFolder folder_;
  const std::string other_ = folder_ / "R.safetensors";
};

// B gets ten of 40 documents wrong, and R none: the mid-p of McNemar of 0 and 10 changes.
TEST_F(JudgeLogsTest, LogsArePairedByDocuments) {
  const std::string piqa = GetFile(kLogs + "samples_piqa.jsonl"), right = piqa.substr(0, piqa.find('\n') + 1),
                    wrong = Replaced(Replaced(right, "-35.04", "-36.04"), "\"acc\": 1.0", "\"acc\": 0.0");
  const auto put = [&](const char* folder, int wrongs) {
    std::filesystem::create_directory(folder_ / folder);
    const std::string path = folder_ / folder / "samples_piqa_2026-01-01T00-00-00.000000.jsonl";
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += Replaced(i < wrongs ? wrong : right, "\"doc_id\": 0", "\"doc_id\": " + std::to_string(i));
    PutFile(path, lines);
    return path;
  };
  const std::string r = put("r", 0), b = put("b", 10);
  const Json judged = Judged({r, b});
  EXPECT_FALSE(judged.contains("scored"));
  const Json change = Cell(judged, b, "choice:piqa").at("changes")[0];
  EXPECT_EQ(change.at("figure"), "acc");
  EXPECT_EQ(change.at("lost"), 10);
  EXPECT_NEAR(change.at("p"), std::pow(0.5, 10), 1e-12);
  EXPECT_NEAR(change.at("value"), -0.25, 1e-12);
  EXPECT_THAT(CallTare({"judge", r, b, "--window", "5"}).err,
              HasSubstr("--window: has no effect without logits of a text: " + r + " has verdicts; try leaving out"));
  EXPECT_THAT(CallTare({"judge", r, b}).out, testing::Not(HasSubstr("uneven")));
  EXPECT_THAT(CallTare({"judge", r, TARE_SOURCE_DIR "/tests/data/harness/samples_mmlu.jsonl"}).err,
              HasSubstr("task: got mmlu, expected piqa as in "));
  EXPECT_THAT(CallTare({"judge", r, other_}).err, HasSubstr("R.safetensors: line 1: "));
}

// The verdicts that the harness logged, of endings and of continuations.
TEST_F(JudgeLogsTest, LogsHaveTheHarnesssVerdicts) {
  for (const char* task :
       {"arc_easy", "boolq", "hellaswag", "lambada_openai", "mmlu", "openbookqa", "piqa", "winogrande"}) {
    const std::string file = kLogs + "samples_" + task + ".jsonl", lines = GetFile(file);
    const Json cell = Judged({file, file}).at("cells")[0];
    EXPECT_TRUE(cell.at("task").get<std::string>().ends_with(std::string(":") + task));
    const auto logged = [&](const std::string& key) {
      std::string verdicts;
      for (size_t at = 0; (at = lines.find("\"" + key + "\": ", at)) != lines.npos; ++at)
        verdicts += lines[at + key.size() + 4];
      return verdicts;
    };
    EXPECT_EQ(cell.at("result").at("outcomes"), logged("acc")) << task;
    const std::string norm = logged("acc_norm");
    EXPECT_TRUE(norm.empty() || cell.at("result").at("outcomes_norm") == norm) << task;
  }
}

TEST_F(JudgeLogsTest, LogsOfOtherDocumentsAndNaNsAreNamed) {
  const std::string piqa = kLogs + "samples_piqa.jsonl", x = folder_ / "x.jsonl";
  const auto refused = [&](const std::string& from, const std::string& to) {
    PutFile(x, Replaced(GetFile(piqa), from, to));
    return CallTare({"judge", piqa, x}).err;
  };
  EXPECT_THAT(refused("\"doc_id\": 1", "\"doc_id\": 7"), testing::AllOf(HasSubstr("line 2: got doc_id 7, doc_hash "),
                                                                        HasSubstr(", expected doc_id 1, doc_hash ")));
  EXPECT_THAT(refused("\"prompt_hash\": \"", "\"prompt_hash\": \"0"), HasSubstr(", prompt_hash 0"));
  PutFile(x, GetFile(piqa) + GetFile(piqa));
  EXPECT_THAT(CallTare({"judge", piqa, x}).err, HasSubstr(" as in line 1, expected it once"));
  EXPECT_THAT(CallTare({"judge", piqa, folder_ / "missing.kld"}).err, testing::Not(HasSubstr("ending '.kld'")));
  EXPECT_THAT(refused("[\"-35.04893493652344\"", "[\"inf\""), HasSubstr("expected finite log-likelihoods"));
  EXPECT_THAT(refused("[\"-35.04893493652344\"", "[\"nan\""),
              HasSubstr("x.jsonl: line 1: \"filtered_resps\": got [[\"nan\""));
  EXPECT_THAT(refused("\"filtered_resps\"", "\"was\""),
              HasSubstr("x.jsonl: line 1: \"filtered_resps\": got none, expected finite log-likelihoods of 2 endings"));
  EXPECT_THAT(refused("\"target\"", "\"was\""), HasSubstr("x.jsonl: line 1: got no doc, arguments and target"));
}

// Answers to 40 documents under two filters, of which the strict one finds `right`, and their f1.
std::string AnswersLog(int right, double f1) {
  std::string lines;
  for (const char* filter : {"strict-match", "flexible-extract"}) {
    for (int i = 0; i < 40; ++i) {
      const Json request{{"arg_0", "Q"}, {"arg_1", Json::object({{"until", {"\n"}}})}};
      lines += Json{{"doc_id", i},
                    {"doc", Json::object()},
                    {"target", "#### 4"},
                    {"arguments", Json::object({{"gen_args_0", request}})},
                    {"filtered_resps", {"4"}},
                    {"filter", filter},
                    {"metrics", {"exact_match", "f1", "bleu"}},
                    {"doc_hash", "da86"},
                    {"exact_match", i < right || *filter == 'f' ? 1.0 : 0.0},
                    {"f1", f1 * (1 + i % 3)},
                    {"bleu", {"4", "4"}}}
                   .dump() +
               "\n";
    }
  }
  return lines;
}

const char* const kStrict = "metric:gsm8k/exact_match,strict-match";

// Verdicts by McNemar's test of 0 and 10 changes; f1 by Student's t over documents, whose differences are -0.1, -0.2
// and -0.3; bleu is of all documents at once.
TEST_F(JudgeLogsTest, EveryMetricOfAnswersIsPairedByDocuments) {
  const std::string r = folder_ / "samples_gsm8k_2026-01-01.jsonl", b = folder_ / "samples_gsm8k_2026-01-02.jsonl";
  PutFile(r, AnswersLog(40, 0.3));
  PutFile(b, AnswersLog(30, 0.2));
  const Json judged = Judged({r, b});
  EXPECT_EQ(judged.at("cells").size(), 8u);
  const Json strict = Cell(judged, b, kStrict).at("changes")[0];
  EXPECT_EQ(strict.at("lost"), 10);
  EXPECT_NEAR(strict.at("p"), std::pow(0.5, 10), 1e-12);
  EXPECT_NEAR(strict.at("p_holm"), 2 * std::pow(0.5, 10), 1e-12);  // both of f1 are smaller, the other filter's is 1
  EXPECT_EQ(Cell(judged, b, "metric:gsm8k/exact_match,flexible-extract").at("changes")[0].at("p"), 1);
  const Json f1 = Cell(judged, b, "metric:gsm8k/f1,strict-match");
  const double mean = (14 * -0.1 + 13 * -0.2 + 13 * -0.3) / 40,
               squares =
                   (14 * std::pow(-0.1 - mean, 2) + 13 * std::pow(-0.2 - mean, 2) + 13 * std::pow(-0.3 - mean, 2));
  EXPECT_NEAR(f1.at("changes")[0].at("value"), mean, 1e-12);
  EXPECT_NEAR(f1.at("changes")[0].at("stderr"), std::sqrt(squares / 39 / 40), 1e-12);
  EXPECT_FALSE(f1.at("changes")[0].contains("lost") && !f1.at("changes")[0].at("lost").is_null());
  EXPECT_THAT(CallTare({"judge", r, b}).out, HasSubstr("p < 0.05 after Holm over 4 changes"));

  const std::string json = folder_ / "judged.json", page = folder_ / "judged.html";
  ASSERT_EQ(CallTare({"judge", r, b, "--json", json}).exit_code, 0);
  ASSERT_EQ(CallTare({"report", json, "--out", page}).exit_code, 0);
  EXPECT_THAT(GetFile(page), HasSubstr("score on gsm8k/exact_match,strict-match falls by 0.250"));
}

// Where one run has only zeros and ones and the other has not, both are means.
TEST_F(JudgeLogsTest, ScoresOfOneKindInAllRunsArePaired) {
  const std::string r = folder_ / "r.jsonl", b = folder_ / "b.jsonl";
  PutFile(r, AnswersLog(40, 0));
  PutFile(b, AnswersLog(40, 0.2));
  const Json judged = Judged({r, b});
  EXPECT_EQ(Cell(judged, r, "metric:f1,strict-match").at("result").at("outcomes"), "");
  EXPECT_NEAR(Cell(judged, b, "metric:f1,strict-match").at("changes")[0].at("value"), 0.395, 1e-12);
  EXPECT_LT(Cell(judged, b, "metric:f1,strict-match").at("changes")[0].at("p"), 0.01);
}

TEST_F(JudgeLogsTest, OddScoresOfAnswersAreNamed) {
  const std::string r = folder_ / "r.jsonl", x = folder_ / "x.jsonl", log = AnswersLog(40, 0.3);
  PutFile(r, log);
  const auto refused = [&](const std::string& from, const std::string& to) {
    const size_t second = log.find('\n') + 1;
    PutFile(x, log.substr(0, second) + Replaced(log.substr(second), from, to));
    return CallTare({"judge", r, x}).err;
  };
  const std::string score = "\"exact_match\":1.0", metrics = "[\"exact_match\",\"f1\",\"bleu\"]";
  EXPECT_THAT(refused(score, "\"was\":1.0"),
              HasSubstr("x.jsonl: line 2: \"exact_match\": got null, expected a finite"));
  EXPECT_THAT(refused(score, "\"exact_match\":\"nan\""), HasSubstr("x.jsonl: line 2: \"exact_match\": got \"nan\""));
  EXPECT_THAT(refused(score, "\"exact_match\":NaN"), HasSubstr("x.jsonl: line 2"));
  EXPECT_THAT(refused(metrics, "[\"f1\"]"),
              HasSubstr("x.jsonl: line 2: metrics: got f1, expected exact_match, f1 as in the first line"));
  EXPECT_THAT(refused("\"metrics\"", "\"were\""), HasSubstr("x.jsonl: line 2: got no \"metrics\" with a score"));
  EXPECT_THAT(refused("\"#### 4\"", "\"#### 5\""), HasSubstr("target #### 5"));
  PutFile(x, Replaced(log, metrics, "[\"f1\"]"));
  EXPECT_THAT(CallTare({"judge", r, x}).err, HasSubstr("x.jsonl: metrics: got f1, expected exact_match, f1 as in "));
  EXPECT_EQ(refused(score, "\"exact_match\":\"True\""), "");
}

TEST_F(JudgeLogsTest, FoldersArePairedByTasks) {
  const std::string r = folder_ / "r", b = folder_ / "b", none = folder_ / "none";
  for (const std::string& folder : {r, b, none}) std::filesystem::create_directory(folder);
  PutFile(r + "/samples_gsm8k_2026-01-01T00-00-00.000001.jsonl", AnswersLog(0, 0.1));
  PutFile(r + "/samples_gsm8k_2026-01-02T00-00-00.000001.jsonl", AnswersLog(40, 0.3));
  PutFile(r + "/results_2026-01-02T00-00-00.000001.json", "{}");
  PutFile(b + "/samples_gsm8k_2026-01-03T00-00-00.000001.jsonl", AnswersLog(30, 0.2));
  for (const char* task : {"piqa", "lambada_openai", "boolq"}) {
    const std::string name = std::string("samples_") + task + ".jsonl", log = GetFile(kLogs + name);
    PutFile(r + "/" + name, log);
    if (*task != 'b') PutFile(b + "/" + name, log);
  }
  const Outcome outcome = CallTare({"judge", r, b});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("boolq: left out, as " + b + " has no samples of it"));
  EXPECT_THAT(outcome.err, HasSubstr("samples_gsm8k_2026-01-01T00-00-00.000001.jsonl: left out, as " + r +
                                     "/samples_gsm8k_2026-01-02T00-00-00.000001.jsonl is newer"));
  EXPECT_THAT(outcome.out, HasSubstr("p < 0.05 after Holm over 6 changes"));
  const Json judged = Judged({r, b});
  EXPECT_EQ(judged.at("cells").size(), 12u);
  EXPECT_EQ(Cell(judged, b, kStrict).at("changes")[0].at("lost"), 10);
  EXPECT_EQ(Cell(judged, b, "choice:piqa").at("changes")[0].at("value"), 0);
  EXPECT_EQ(Cell(judged, b, "loglikelihood:lambada_openai").at("changes")[0].at("value"), 0);
  EXPECT_THAT(CallTare({"judge", r, none}).err, HasSubstr("boolq: left out, as " + none));
  EXPECT_THAT(CallTare({"judge", r, none}).err, HasSubstr(none + ": got no samples_TASK_DATE.jsonl of a task of all"));
  EXPECT_THAT(CallTare({"judge", r, other_}).err, HasSubstr(other_ + ": got no folder, expected one as " + r + " is"));
}

// Texts as a whole have no figure of a document that is paired, nor have answers of which a list alone is logged.
TEST_F(JudgeLogsTest, FoldersAreJudgedWithoutWhatHasNoPairs) {
  const std::string r = folder_ / "r", b = folder_ / "b";
  for (const std::string& folder : {r, b}) {
    std::filesystem::create_directory(folder);
    PutFile(folder + "/samples_piqa.jsonl", GetFile(kLogs + "samples_piqa.jsonl"));
    PutFile(folder + "/samples_text.jsonl",
            R"({"doc_id":0,"doc":{"page":"a"},"target":"a","arguments":{"gen_args_0":{"arg_0":"a"}},)"
            R"("resps":[["-1.5"]],"filtered_resps":["-1.5"]})"
            "\n");
  }
  const Outcome outcome = CallTare({"judge", r, b});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("text: left out: "));
  EXPECT_THAT(outcome.out, HasSubstr("choice:piqa"));
  EXPECT_THAT(CallTare({"judge", r + "/samples_text.jsonl", b + "/samples_text.jsonl"}).err,
              HasSubstr("line 1: got the log-likelihood of a whole text, expected one of endings or answers"));
  std::filesystem::remove(r + "/samples_piqa.jsonl");
  EXPECT_THAT(CallTare({"judge", r, b}).err, HasSubstr("got no task that can be paired"));
}

}  // namespace
}  // namespace tare::judge_logs_test
