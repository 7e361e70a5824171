// SPDX-License-Identifier: Apache-2.0
// Every example of docs/reference/plans.md runs on the embedded pair as its table says, and those that are only
// simulated are refused when executed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::plan_examples_test {
namespace {

struct Example {
  std::string plan, carried_out;
};

// Rows `| `PLAN` | meaning | mode |`.
std::vector<Example> Examples() {
  std::ifstream page(TARE_SOURCE_DIR "/docs/reference/plans.md");
  std::vector<Example> examples;
  bool inside = false;
  for (std::string line; std::getline(page, line); inside = inside && line.starts_with("|")) {
    if (line == "| plan | meaning | mode |") inside = true;
    if (!inside || !line.starts_with("| `")) continue;
    const size_t last = line.rfind("| ");
    examples.push_back({line.substr(3, line.find('`', 3) - 3), line.substr(last + 2, line.rfind(" |") - last - 2)});
  }
  return examples;
}

// Plans of two maps mean nothing in a model of one.
bool HasTwoMaps(const std::string& plan) { return plan.contains("[m2]") || plan.contains("difference"); }

class PlanExamplesTest : public testing::Test {
 protected:
  // A short text: the program encodes all of it to spread its windows, half a second for the whole novel.
  PlanExamplesTest() { PutFile(text_, GetFile(PairFolder("heldout.txt")).substr(0, 2000)); }

  Outcome Run(const std::string& model, const std::string& plan, bool executed) const {
    // Caches round nothing of a text of a page.
    const std::string tokens = plan.contains("cache_") ? "80" : "40";
    std::vector<std::string> arguments{"eval",    PairFolder(model),     "--plan",   plan,
                                       "--tasks", "perplexity=" + text_, "--tokens", tokens};
    if (executed) arguments.push_back("--executed");
    if (plan.contains("+static")) arguments.insert(arguments.end(), {"--stats", folder_ / (model + ".h5")});
    return CallTare(arguments);
  }

  const TemporaryFolder folder_;
  const std::string text_ = folder_ / "text";
};

TEST_F(PlanExamplesTest, RunOnTheEmbeddedPairAsThePageSays) {
  const std::vector<Example> examples = Examples();
  ASSERT_GT(examples.size(), 12u);
  for (const std::string model : {"novels-standard", "novels-differential"}) {
    const Outcome stats = CallTare({"stats", PairFolder(model), "--input", text_, "--tokens", "40", "--sites",
                                    "linear_in", "--out", folder_ / (model + ".h5")});
    ASSERT_EQ(stats.exit_code, 0) << stats.err;
    for (const auto& [plan, carried_out] : examples) {
      if (model == "novels-standard" && HasTwoMaps(plan)) continue;
      ASSERT_THAT(carried_out, testing::AnyOf("simulated", "executed")) << plan;
      const Outcome simulated = Run(model, plan, false), executed = Run(model, plan, true);
      EXPECT_EQ(simulated.exit_code, 0) << model << ' ' << plan << '\n' << simulated.err;
      EXPECT_EQ(executed.exit_code, carried_out == "executed" ? 0 : 2) << model << ' ' << plan << '\n' << executed.err;
    }
  }
}

}  // namespace
}  // namespace tare::plan_examples_test
