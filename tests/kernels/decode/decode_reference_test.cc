// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decode_attention.h"

#include <gtest/gtest.h>

#include "kernels/attention/heads.h"
#include "tests/support/random_decode.h"

namespace tare::decode_reference_test {
namespace {

// Head 1 of two.
DecodeTruth Truth(const RandomDecode& c) {
  return ReferenceDecode(c.tensors.heads[1], 1, c.table.scale(), c.table.window(), c.sequence());
}

std::vector<double> OfHeadOne(const std::vector<double>& all, size_t width) {
  std::vector<double> head;
  for (size_t row = 1; row < all.size() / width; row += 2)
    head.insert(head.end(), all.begin() + row * width, all.begin() + (row + 1) * width);
  return head;
}

TEST(DecodeReference, OverF32ItIsAttention) {
  for (const Mask mask : {Mask{}, Mask{.kind = Mask::Kind::kWindow, .window = 20}}) {
    for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder}) {
      RandomDecode c({.family = family, .kv = 2, .queries = 3, .keys = 150, .mask = mask}, {});
      const DecodeTruth truth = Truth(c);
      EXPECT_EQ(truth.out, OfHeadOne(ReferenceAttentionDouble(c.tensors.problem), c.table.out_width()));
      EXPECT_EQ(truth.magnitudes, OfHeadOne(ReferenceMagnitudes(c.tensors.problem), 1));
    }
  }
}

TEST(DecodeReference, OverCodesItIsAttentionOnWhatTheyStandFor) {
  RandomDecode c({.queries = 2, .keys = 100}, {.k = {Format::kInt4}, .v = {Format::kInt4}});
  const std::vector<double> exact = OfHeadOne(ReferenceAttentionDouble(c.tensors.problem), 32), got = Truth(c).out;
  double error = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(got[i] - exact[i], 2);
    size += exact[i] * exact[i];
  }
  EXPECT_GT(error, 0.05 * 0.05 * size);  // steps of a seventh of the largest
  EXPECT_LT(error, 0.4 * 0.4 * size);
}

TEST(DecodeReference, AnEmptyCacheGivesZeros) {
  RandomDecode c({.queries = 2, .keys = 1}, {});
  c.cache.Truncate(0);
  EXPECT_EQ(Truth(c).out, std::vector<double>(2 * 32, 0.0));
  EXPECT_EQ(Truth(c).magnitudes, std::vector<double>(2, 0.0));
}

}  // namespace
}  // namespace tare::decode_reference_test
