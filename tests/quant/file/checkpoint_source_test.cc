// SPDX-License-Identifier: Apache-2.0
#include "quant/file/checkpoint_source.h"

#include <gtest/gtest.h>

namespace tare::checkpoint_source_test {
namespace {

class Nothing : public CheckpointSource {
  std::vector<std::string> names() const override { return {}; }
  const TensorView* Find(std::string_view) const override { return nullptr; }
  void Release(const std::string&) const override {}
  std::string ContentHash() const override { return ""; }
};

TEST(CheckpointSource, HasTensorsAloneUnlessItSaysMore) {
  const Nothing nothing;
  const CheckpointSource& source = nothing;
  EXPECT_EQ(source.FindQuantized("a"), nullptr);
  EXPECT_EQ(source.FindForeign("a"), nullptr);
  EXPECT_EQ(source.quantized(), nullptr);
  EXPECT_TRUE(source.notes().empty());
}

}  // namespace
}  // namespace tare::checkpoint_source_test
