// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/stored_size.h"

#include <gtest/gtest.h>

#include "experiments/quantize/quantize.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::stored_size_test {
namespace {

TEST(StoredSize, CountsTensorsCodesAndScales) {
  const TemporaryFolder folder;
  const std::filesystem::path source = GoldenFolder("llama-mha");
  Quantize({source, Plan::Parse("weights=int8/channel"), folder / "q.h5"}, {});
  const Checkpoint whole(source), quantized(folder / "q.h5");
  const StoredSize before = StoredSizeOf(whole), after = StoredSizeOf(quantized);
  EXPECT_EQ(before.bytes, static_cast<uint64_t>(whole.total_bytes()));
  EXPECT_EQ(after.bytes, static_cast<uint64_t>(quantized.total_bytes()));
  EXPECT_EQ(after.values, before.values);
  EXPECT_EQ(before.BitsPerWeight(), 8.0 * static_cast<double>(before.bytes) / static_cast<double>(before.values));
  EXPECT_LT(after.BitsPerWeight(), before.BitsPerWeight());
}

}  // namespace
}  // namespace tare::stored_size_test
