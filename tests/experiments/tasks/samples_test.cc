// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;

TEST(Samples, AreCountedInTheOrderInWhichTheyCome) {
  const auto of = [](const Json& sample) { return Json{{"line", 1}, {"item", {{"sample", sample}}}}; };
  const std::vector<Json> records{of(7),   of("a"), Json{{"line", 3}}, of(7), Json{{"item", {{"depth", 1}}}},
                                  of("a"), of(7)};
  const size_t items[] = {0, 1, 2, 3, 4, 5};
  const WindowLosses samples = BySample(records, "1101000", items);
  EXPECT_THAT(samples.sums, ElementsAre(2, 1, 0, 0));
  EXPECT_THAT(samples.counts, ElementsAre(2, 2, 1, 1)) << "items without the key are samples by themselves";
}

}  // namespace
}  // namespace tare
