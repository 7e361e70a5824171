// SPDX-License-Identifier: Apache-2.0
// Every row of the table of kernels x formats x shapes, with the heads and inputs of its model, against its scalar
// reference; and that the check of a row sees a wrong output.
// In the released build alone: half a minute under sanitizers, where other tests run each kernel in hostile sizes.
#include <gtest/gtest.h>

#include <set>

#include "quant/base/parallel.h"
#include "tests/kernels/bench/kernel_table.h"

namespace tare::kernel_table_test {
namespace {

TEST(KernelTable, EveryRowIsRight) {
  for (const KernelRow& row : KernelTable()) {
    KernelCase kernel = row.make(row.tested, Extent::kFewOutputs);
    kernel.run();
    EXPECT_EQ(kernel.wrong(), "") << row.name;
    kernel.run();  // as a benchmark does: what a call leaves must not spoil the next
    EXPECT_EQ(kernel.wrong(), "") << row.name << ", again";
  }
}

// An output that no call has written is not right.
TEST(KernelTable, EveryCheckSeesAKernelThatDidNotRun) {
  for (const KernelRow& row : KernelTable()) {
    if (row.name.starts_with("LogitStage/")) continue;  // made with all its steps done
    if (row.name.starts_with("KvCache/") || row.name.starts_with("PackedMatrix/")) continue;  // made filled
    EXPECT_NE(row.make(row.tested, Extent::kFewOutputs).wrong(), "") << row.name;
  }
}

TEST(KernelTable, NamesDifferAndSizesRise) {
  std::set<std::string> names;
  for (const KernelRow& row : KernelTable()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(!row.sizes.empty() && std::ranges::is_sorted(row.sizes)) << row.name;
  }
}

}  // namespace
}  // namespace tare::kernel_table_test
