// SPDX-License-Identifier: Apache-2.0
// The cells of tare attribute on several machines; sweep_test.cc has those of tare sweep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::cells_test {
namespace {

using ::testing::HasSubstr;

TEST(CellsTest, PartsMergeFromSeveralMachines) {
  TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 6, 20);
  const auto attribute = [&](const char* out, std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"attribute", GoldenFolder("diffllama-mha"), "--plan", "q=int4/token,k=int4/token", "--tasks",
                    "divergence=" + (folder / "ids.safetensors").string(), "--out", folder / out});
    return CallTare(options);
  };
  EXPECT_THAT(attribute("no", {"--list"}).out, HasSubstr("\n3 diffllama-mha k=int4/token divergence:ids\n"));
  EXPECT_FALSE(std::filesystem::exists(folder / "no"));
  const Outcome first = attribute("a", {"--cells", "0-3"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("finished runs are in"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a" / "attribution.csv"));
  EXPECT_THAT(attribute("m", {"--merge", folder / "a"}).err, HasSubstr("got 4 of 6 runs, expected all; missing: 4-5"));
  ASSERT_EQ(attribute("b", {"--cells", "4-5"}).exit_code, 0);
  ASSERT_EQ(attribute("m", {"--merge", folder / "b", "--merge", folder / "a"}).exit_code, 0);
  ASSERT_EQ(attribute("one", {}).exit_code, 0);
  for (const char* name : {"cells.jsonl", "attribution.json"})
    EXPECT_EQ(GetFile(folder / "m" / name), GetFile(folder / "one" / name)) << name;
  EXPECT_THAT(attribute("x", {"--cells", "7"}).err, HasSubstr("--cells: got 7-7, expected numbers from 0 to 5"));
}

}  // namespace
}  // namespace tare::cells_test
