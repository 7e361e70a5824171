// SPDX-License-Identifier: Apache-2.0
// A fixed list of commands on SSE4, AVX2 and AVX-512 (without VNNI), compared with the results on the machine's full
// instruction set. A level that the machine lacks repeats a lesser one.
// In the released build alone: it compares what instructions of a processor compute.
//
// Bytes are equal if only rounding lies between weights and file. Otherwise sums of floats have another order:
//   f32       each run is within 2e-5 of the largest magnitude of the reference implementation's result (the
//             parity test), so two are within 4e-5 of each other
//   a plan    a value that moves by d crosses the middle between two codes with probability d / step, and then moves by
//             a step, while rounding moves every value by step^2 / 12 in the mean square. With d of 4e-5 of the largest
//             value, 127 steps: sqrt(12 * 127 * 4e-5) = 0.25 of the effect of rounding. Later layers start from what
//             earlier ones moved: twice that is allowed, in the norm of all logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "quant/file/hdf5.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/run_command.h"

namespace tare::instructions_test {
namespace {

const std::vector<std::string> kLevels = {"sse4", "avx2", "avx512"};
const std::vector<std::string> kSameBytes = {"nearest.h5", "rotated.h5"};

struct Plan {
  std::string name;
  std::vector<std::string> options;
};
const std::vector<Plan> kPlans = {
    {"int8", {"--plan", "int8", "--executed"}},
    {"simulated", {"--plan", "attn_logits=int4/row,weights=int4/group16,linear_in=int8/token"}}};

using Words = std::vector<std::string>;

class InstructionsTest : public testing::Test {
 protected:
  // The list of commands, held to a level ("" for none), with its files in a folder of that name.
  void RunAt(const std::string& level) {
    std::filesystem::create_directory(folder_ / ("at" + level));
    const std::string model = PairFolder("novels-differential"), text = folder_ / "text";
    const Words dump = {"dump", model, "--input", text, "--tokens", "32"};
    Run(level, {"quantize", model, "--plan", "weights=int4/group16", "--out", File(level, "nearest.h5")});
    Run(level, {"quantize", model, "--plan", "weights=int6/channel+mse", "--method", "hadamard+rtn", "--out",
                File(level, "rotated.h5")});
    Run(level, dump, {"--out", File(level, "f32")});
    for (const Plan& plan : kPlans) {
      Words options = plan.options;
      options.insert(options.end(), {"--out", File(level, plan.name)});
      Run(level, dump, options);
    }
  }
  void Run(const std::string& level, Words command, const Words& options = {}) {
    command.insert(command.end(), options.begin(), options.end());
    CommandSetting setting;
    if (!level.empty()) setting.environment = {"TARE_MAX_ISA=" + level};
    const Outcome outcome = StartTare(command, setting);
    ASSERT_EQ(outcome.exit_code, 0) << level << testing::PrintToString(command) << outcome.err;
  }
  std::string File(const std::string& level, const std::string& name) const { return folder_ / ("at" + level) / name; }
  std::vector<float> Logits(const std::string& level, const std::string& name) const {
    return Hdf5Reader(File(level, name)).Read<float>("logits");
  }

  TemporaryFolder folder_;
};

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  return std::sqrt(sum);
}

TEST_F(InstructionsTest, ChangeWhatTheOrderOfSumsMay) {
  PutFile(folder_ / "text", GetFile(PairFolder("heldout.txt")).substr(0, 1000));
  RunAt("");
  const std::vector<float> f32 = Logits("", "f32");
  ASSERT_FALSE(f32.empty());
  const double largest = LargestDifference(f32, std::vector<float>(f32.size()));
  for (const std::string& level : kLevels) {
    RunAt(level);
    for (const std::string& name : kSameBytes)
      EXPECT_TRUE(GetFile(File(level, name)) == GetFile(File("", name))) << level << " " << name;
    EXPECT_LE(LargestDifference(Logits(level, "f32"), f32), 4e-5 * largest) << level;
    for (const Plan& plan : kPlans) {
      const std::vector<float> here = Logits(level, plan.name), best = Logits("", plan.name);
      EXPECT_LE(Distance(here, best), 0.5 * Distance(best, f32)) << level << " " << plan.name;
    }
  }
}

TEST_F(InstructionsTest, ProductsThatTheProcessorDoesNotHaveAreRefused) {
  const Outcome eval = StartTare({"eval", PairFolder("novels-differential"), "--tasks",
                                  "choice=" + PairFolder("needles-4.jsonl").string(), "--limit", "1", "--math", "bf16"},
                                 {.environment = {"TARE_MAX_ISA=sse4"}});
  EXPECT_EQ(eval.exit_code, 1);
  EXPECT_EQ(eval.err, "tare: bf16: this processor has no products of bf16; try --math f32\n");
}

TEST_F(InstructionsTest, AnUnknownLevelIsRefused) {
  const Outcome outcome = StartTare({"--version"}, {.environment = {"TARE_MAX_ISA=avx3"}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "tare: TARE_MAX_ISA: got 'avx3', expected sse4, avx2 or avx512\n");
}

}  // namespace
}  // namespace tare::instructions_test
