// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/linear_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

LinearCase Small(const std::string& plan) { return {.plan = plan, .rows = 33, .out = 70, .in = 128, .repetitions = 1}; }

TEST(PreparedLinear, EveryFormatAgreesWithTheReference) {
  for (const char* plan : {"weights=int8/channel,linear_in=int8/token", "weights=int6/group64,linear_in=int6/token",
                           "weights=int4/group32,linear_in=int8/token", "weights=int4/tensor,linear_in=int4/token"}) {
    PreparedLinear prepared(Small(plan));
    EXPECT_NO_THROW(prepared.Verify()) << plan;
    EXPECT_GT(prepared.rel_l2(), 0) << plan;
  }
}

TEST(PreparedLinear, PlansThatNoKernelExecutesAreRefused) {
  const auto refused = [](const std::string& plan, const std::string& part) {
    EXPECT_THAT([&] { PreparedLinear prepared(Small(plan)); }, ThrowsMessage<Error>(HasSubstr(part))) << plan;
  };
  refused("linear_in=int8/token", "expected weights in integers");
  refused("attn_logits=f32", "quantizes no weights");
  refused("weights=int8/channel,linear_in=int8/group64", "linear_in=int8/token");
  refused("weights=int8/channel", "33 rows");
  refused("weights=int8/group48,linear_in=int8/token", "group48");
}

}  // namespace
}  // namespace tare
