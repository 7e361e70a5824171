// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/captured/captured_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/call.h"

namespace tare::captured_mask_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class CapturedMaskTest : public testing::Test {
 protected:
  // [begin, end) of each query of the first head of the first sequence, as text.
  std::string Seen(const std::string& name, const TestArray& map, const std::string& mask,
                   std::map<std::string, TestArray> others = {}) {
    others[name] = map;
    PutArrays(folder_ / "f.safetensors", others);
    const CapturedFile file = OpenCaptured(ArrayFile::Open(folder_ / "f.safetensors"), CapturedLayout());
    const CapturedArray& array = file.arrays.front();
    const ArrayValues values = file.file->Values(array.array);
    const CapturedMask seen(file, array, values, mask);
    std::string text;
    for (int64_t q = 0; q < array.rows; ++q) {
      const std::span row(&map.values[static_cast<size_t>(q * array.columns)], static_cast<size_t>(array.columns));
      const PositionRange range = seen.Visible(0, q, row, file.tokens[0]);
      text += std::to_string(range.begin) + "-" + std::to_string(range.end) + " ";
    }
    return text;
  }
  const TemporaryFolder folder_;
};

TEST_F(CapturedMaskTest, FindsTheNamedMask) {
  const TestArray map = SomeArray({1, 1, 3, 3});
  EXPECT_EQ(Seen("probs.0", map, "none"), "0-3 0-3 0-3 ");
  EXPECT_EQ(Seen("probs.0", map, "causal"), "0-1 0-2 0-3 ");
  EXPECT_EQ(Seen("attn_logits.0", SomeArray({1, 1, 2, 4}), "causal"), "0-3 0-4 ");
  EXPECT_EQ(Seen("probs.0", map, "m", {{"m", {{3, 3}, {1, 1, 0, 0, 1, 0, 0, 0, 0}}}}), "0-2 1-2 3-3 ");
  EXPECT_EQ(Seen("probs.0", map, "m", {{"m", {{1, 1, 3, 3}, {0, 0, 1, 0, 1, 1, 1, 1, 1}}}}), "2-3 1-3 0-3 ");
}

TEST_F(CapturedMaskTest, LogitsByTheirLowestValue) {
  const float lowest = std::numeric_limits<float>::lowest();
  const TestArray map{{1, 1, 3, 3}, {1, -kInfinity, lowest, 2, -1e30f, lowest + 1e31f, lowest, 3, 0}};
  EXPECT_EQ(Seen("attn_logits.0", map, ""), "0-1 0-2 1-3 ");
}

TEST_F(CapturedMaskTest, MapsByTheZerosAfterAQuery) {
  EXPECT_EQ(Seen("probs.0", {{1, 1, 2, 2}, {1, 0, 0, 1}}, ""), "0-1 0-2 ");
  EXPECT_EQ(Seen("probs.0", {{1, 1, 2, 2}, {.5f, .5f, 0, 1}}, ""), "0-2 0-2 ");
}

TEST_F(CapturedMaskTest, PaddingHidesKeys) {
  EXPECT_EQ(Seen("probs.0", SomeArray({1, 1, 3, 3}), "none", {{"attention_mask", {{1, 3}, {0, 1, 1}}}}),
            "1-3 1-3 1-3 ");
}

TEST_F(CapturedMaskTest, HolesAndOtherShapesAreRefused) {
  const TestArray map = SomeArray({1, 1, 1, 3});
  EXPECT_THAT(Call([&] { Seen("probs.0", map, "m", {{"m", {{1, 3}, {1, 0, 1}}}}); }),
              ThrowsMessage<Error>(HasSubstr("probs.0: sequence 0: query 0 sees keys 0 and 2 but not 1")));
  EXPECT_THAT(Call([&] { Seen("probs.0", map, "m", {{"m", {{3}, {1, 1, 1}}}}); }),
              ThrowsMessage<Error>(HasSubstr("mask m: got shape [3], expected [1, 3] or [1, 1, 3]")));
  EXPECT_THAT(Call([&] { Seen("probs.0", map, "m"); }),
              ThrowsMessage<Error>(HasSubstr("got no array 'm' for its mask")));
}

}  // namespace
}  // namespace tare::captured_mask_test
