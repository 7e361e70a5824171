// SPDX-License-Identifier: Apache-2.0
// A visitor of one projection's input changes that projection alone, though others read the same rows.
#include "experiments/model/decoder.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "experiments/model/model.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::decoder_test {
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

TEST(DecoderTest, EachProjectionHasItsOwnCopy) {
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

}  // namespace
}  // namespace tare::decoder_test
