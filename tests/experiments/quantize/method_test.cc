// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::method_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(QuantizeMethodTest, StepsAreReadAndWritten) {
  for (const auto& [text, equivalent, rounding] :
       {std::tuple{"rtn", "", "rtn"},
        {"gptq", "", "gptq"},
        {"gptq+quantease", "", "gptq+quantease"},
        {"gptaq", "", "gptaq"},
        {"gptq:0.05", "", "gptq:0.05"},
        {"gptaq:stored:0.001+quantease", "", "gptaq:0.001:stored+quantease"},
        {"gptq:0.01", "", "gptq"},
        {"gptq:moved", "", "gptq:moved"},
        {"svdquant", "", "svdquant"},
        {"smoothquant+svdquant:16", "smoothquant", "svdquant:16"},
        {"qronos", "", "qronos"},
        {"qronos:stored:0.000001", "", "qronos:stored"},
        {"hadamard+qronos:0.01:moved", "hadamard", "qronos:0.01:moved"},
        {"gptq:moved:0.05", "", "gptq:0.05:moved"},
        {"hadamard", "hadamard", ""},
        {"hadamard+gptq", "hadamard", "gptq"},
        {"hadamard:7+rtn", "hadamard:7", "rtn"},
        {"cayley", "cayley", ""},
        {"cayley:100+gptq", "cayley", "gptq"},
        {"cayley:50+rtn", "cayley:50", "rtn"},
        {"cayley:100:7+gptaq", "cayley:100:7", "gptaq"},
        {"cayley:50:0+rtn", "cayley:50", "rtn"},
        {"smoothquant+rtn", "smoothquant", "rtn"},
        {"awq", "awq", "rtn"},
        {"signround", "", "signround"},
        {"signround:200", "", "signround"},
        {"awq+signround:50+quantease", "awq", "signround:50+quantease"},
        {"autoround", "", "autoround"},
        {"hadamard+autoround:50", "hadamard", "autoround:50"},
        {"cayley+autoround:200:0", "cayley", "autoround"},
        {"autoround:200:7", "", "autoround:200:7"},
        {"awq+gptq+quantease", "awq", "gptq+quantease"},
        {"smoothquant:0.75+rtn+quantease", "smoothquant:0.75", "rtn+quantease"}}) {
    const QuantizeMethod method = ParseMethod(text);
    EXPECT_EQ(method.EquivalentText(), equivalent);
    EXPECT_EQ(method.RoundingText(), rounding);
  }
  EXPECT_FALSE(ParseMethod("smoothquant+rtn").RoundsByCalibration());
  EXPECT_FALSE(ParseMethod("cayley+rtn").RoundsByCalibration()) << "only its rotation";
  EXPECT_TRUE(ParseMethod("awq").RoundsByCalibration()) << "its clips";
  EXPECT_EQ(ParseMethod("awq").Text(), "awq+rtn");
  EXPECT_EQ(ParseMethod("hadamard:7").Text(), "hadamard:7");
  EXPECT_EQ(ParseMethod("gptq+quantease").Text(), "gptq+quantease");
  EXPECT_TRUE(ParseMethod("rtn+quantease").RoundsByCalibration());
}

TEST(QuantizeMethodTest, InvalidCombinationsAreRefused) {
  for (const auto& [text, message] : {std::pair{"", "got step ''"},
                                      {"awp", "joined by +; the nearest is awq"},
                                      {"gtpq:0.05+quantease", "joined by +; the nearest is gptq"},
                                      {"smoothquant+svd", "joined by +; the nearest is svdquant"},
                                      {"awq:0.5", "got step 'awq:0.5'"},
                                      {"awq+quantease", "another step made"},
                                      {"gptq+awq", "before they become codes"},
                                      {"hadamard+awq", "each would undo the other"},
                                      {"rtn+", "got step ''"},
                                      {"rtn+gptq", "two steps that round"},
                                      {"gptaq+gptq", "two steps that round"},
                                      {"gptq:", "got ''"},
                                      {"gptq:0", "above 0 and up to 1"},
                                      {"gptq:1.5", "above 0 and up to 1"},
                                      {"gptq:nan", "above 0 and up to 1"},
                                      {"gptq:0.1:0.1", "each once"},
                                      {"gptaq:stored:stored", "each once"},
                                      {"gptq:stored:moved", "each once"},
                                      {"qronos:0", "above 0 and up to 1"},
                                      {"qronos+quantease", "try gptaq+quantease"},
                                      {"awq+qronos:moved", "before any weight has moved"},
                                      {"awq+gptq:moved", "before any weight has moved"},
                                      {"rtn:stored", "got step 'rtn:stored'"},
                                      {"gptq+hadamard", "before they become codes"},
                                      {"hadamard+smoothquant+rtn", "each would undo the other"},
                                      {"hadamard+hadamard", "each would undo the other"},
                                      {"signround+rtn", "two steps that round"},
                                      {"signround+autoround", "two steps that round"},
                                      {"signround:50:7", "1 to 10000 steps"},
                                      {"autoround:0", "1 to 10000 steps"},
                                      {"autoround:5:x", "after the second colon"},
                                      {"awq+autoround", "try awq+signround"},
                                      {"autoround+quantease", "signround+quantease"},
                                      {"signround:0", "1 to 10000 steps"},
                                      {"signround:10001", "1 to 10000 steps"},
                                      {"signround:x", "1 to 10000 steps"},
                                      {"quantease", "another step made"},
                                      {"rtn+quantease+quantease", "another step made"},
                                      {"hadamard+cayley", "each would undo the other"},
                                      {"cayley+awq", "each would undo the other"},
                                      {"gptq+cayley", "before they become codes"},
                                      {"cayley:", "1 to 10000 steps"},
                                      {"cayley:0", "1 to 10000 steps"},
                                      {"cayley:10001", "1 to 10000 steps"},
                                      {"cayley:50:", "after the second colon"},
                                      {"cayley:50:-1", "after the second colon"},
                                      {"cayley:50:1:2", "after the second colon"},
                                      {"hadamard:x", "a whole number"},
                                      {"hadamard:-1", "a whole number"},
                                      {"smoothquant:2+rtn", "0 to 1"},
                                      {"smoothquant:+rtn", "0 to 1"},
                                      {"smoothquant:nan+rtn", "0 to 1"}}) {
    EXPECT_THAT(Call([&] { ParseMethod(text); }), ThrowsMessage<Error>(HasSubstr(message))) << text;
  }
}

}  // namespace
}  // namespace tare::method_test

namespace tare::quantize_job_test {
namespace {

TEST(QuantizeJob, RoundsToNearestUnlessAskedOtherwise) {
  const QuantizeJob job;
  EXPECT_EQ(job.method.Text(), "rtn");
  EXPECT_FALSE(job.method.TakesCalibration());
  EXPECT_TRUE(job.calibration.empty());
}

}  // namespace
}  // namespace tare::quantize_job_test
