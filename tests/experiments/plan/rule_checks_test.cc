// SPDX-License-Identifier: Apache-2.0
// The common form of a plan's refusals; resolved_plan_test.cc tests each of them.
#include "experiments/plan/rule_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::rule_checks_test {
namespace {

using testing::ThrowsMessage;

TEST(RuleChecks, RefusalsHaveOneForm) {
  const Plan plan = Plan::Parse("v[l4]=int8/block64.channel");
  const Rule& rule = plan.rules().front();
  EXPECT_EQ(ScaleText(rule), "a scale per block64.channel");
  EXPECT_THAT(Call([&] { RefuseRule(rule, "this", "that", "the other"); }),
              ThrowsMessage<Error>("plan rule 'v[l4]=int8/block64.channel': got this, expected that; try the other"));
  const ModelSites model{.family = "toy", .layers = 2, .maps = 1, .tied_head = false, .heads = {}, .weights = {}};
  EXPECT_THAT(Call([&] { CheckSelector(rule, Site::kV, model, "--sites 'v[l4]'"); }),
              ThrowsMessage<Error>("--sites 'v[l4]': got layer 4 of v, expected 0 to 1; try a selector that this toy "
                                   "model has"));
}

}  // namespace
}  // namespace tare::rule_checks_test
