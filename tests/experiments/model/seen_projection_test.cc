// SPDX-License-Identifier: Apache-2.0
// A visitor of one projection's input changes that projection alone, though others read the same rows.
#include "experiments/model/seen_projection.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "experiments/model/model.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"

namespace tare::seen_projection_test {
namespace {

// Zeroes one site; keeps those of q, k and v in layer 0 that hold nothing but zeros.
class Zeros : public SiteVisitor {
 public:
  explicit Zeros(Site zeroed) : zeroed_(zeroed) {}
  bool Wants(Site, std::optional<int> layer) const override { return layer == 0; }
  bool Changes() const override { return true; }
  void Visit(const SiteBlock& block, int) override {
    bool any = false;
    for (int64_t r = 0; r < block.rows; ++r) {
      for (float& value : block.Row(r)) {
        if (block.site == zeroed_) value = 0;
        any |= value != 0;
      }
    }
    const std::lock_guard lock(mutex_);
    if (!any) empty.insert(block.site);
  }
  std::set<Site> empty;

 private:
  Site zeroed_;
  std::mutex mutex_;
};

TEST(SeenProjectionTest, EachProjectionHasItsOwnCopy) {
  Model model(GoldenFolder("llama-mha"));  // without biases
  for (const auto& [input, output] : {std::pair(Site::kQProjIn, Site::kQ), std::pair(Site::kKProjIn, Site::kK),
                                      std::pair(Site::kVProjIn, Site::kV)}) {
    Zeros zeros(input);
    SiteVisitor* const visitors[] = {&zeros};
    model.Forward(GoldenBatch("llama-mha"), visitors);
    EXPECT_TRUE(zeros.empty.contains(output)) << Name(input);
    for (const Site other : {Site::kQ, Site::kK, Site::kV}) {
      if (other != output) {
        EXPECT_FALSE(zeros.empty.contains(other)) << Name(input) << ' ' << Name(other);
      }
    }
  }
}

TEST(SeenProjectionTest, CodesServeFewRowsWhereNothingElseIsReady) {
  const QuantizedMatrixBuffer codes = RandomQuantized(Format::kInt4, 64, 64, 64, 1);
  PlannedLinear planned;
  LinearWeights linear;
  linear.weight = {.out = 64, .in = 64, .quantized = &codes.view()};
  EXPECT_FALSE(CodesServe(nullptr, linear, 1, Math::kF32));
  EXPECT_FALSE(CodesServe(&planned, linear, 1, Math::kF32));
  planned.packed.emplace(codes.view());
  EXPECT_TRUE(CodesServe(&planned, linear, 1, Math::kF32));
  EXPECT_TRUE(CodesServe(&planned, linear, kFewTokens, Math::kF32));
  EXPECT_FALSE(CodesServe(&planned, linear, kFewTokens + 1, Math::kF32));
  planned.dequantized.out = 64;  // values are kept
  EXPECT_TRUE(CodesServe(&planned, linear, 1, Math::kF32));
  EXPECT_FALSE(CodesServe(&planned, linear, 2, Math::kF32));
  planned.dequantized.out = 0;
  const std::vector<float> stored(64 * 64);
  linear.weight.data = stored.data();  // a copy in f32 of the codes
  EXPECT_FALSE(CodesServe(&planned, linear, 2, Math::kF32));
  linear.when_used.emplace();  // a plan rounds what is stored
  EXPECT_TRUE(CodesServe(&planned, linear, 2, Math::kF32));
  planned.activation = TokenFormat{.format = Format::kInt8};
  EXPECT_TRUE(CodesServe(&planned, linear, kFewTokens + 1, Math::kF32));
}

TEST(SeenProjectionTest, BuffersGrowWithZeros) {
  AlignedBuffer<float> buffer;
  GrowRows(buffer, 3, 5);
  EXPECT_GE(buffer.size(), 15u);
  for (const float value : buffer.span()) EXPECT_EQ(value, 0);
  buffer[14] = 1;
  GrowRows(buffer, 2, 5);  // keeps what it has
  EXPECT_EQ(buffer[14], 1);
}

}  // namespace
}  // namespace tare::seen_projection_test
