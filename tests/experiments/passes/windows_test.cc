// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "quant/base/error.h"

namespace tare {
namespace {

TEST(Windows, EachTokenIsScoredOnceWithTheContextThereIs) {
  for (size_t n = 0; n <= 40; ++n) {
    for (size_t m = 1; m <= 12; ++m) {
      for (size_t s = 1; s <= m; ++s) {
        SCOPED_TRACE(testing::Message() << n << " tokens, windows of " << m << ", stride " << s);
        const std::vector<Window> windows = CutWindows(n, m, s);
        size_t scored = 0;
        for (size_t i = 0; i < windows.size(); ++i) {
          const Window& w = windows[i];
          ASSERT_EQ(w.end - w.begin, std::min(n, m));  // all are full but where the row is shorter than one
          ASSERT_LE(w.end, n);
          ASSERT_EQ(w.first_scored, scored);
          ASSERT_LE(w.begin, w.first_scored);
          ASSERT_LT(w.first_scored, w.end);  // none is for nothing
          ASSERT_GE(w.first_scored - w.begin, i == 0 ? 0 : m - s);
          ASSERT_EQ(w.begin, std::min(i * s, n - std::min(n, m)));
          scored = w.end;
        }
        ASSERT_EQ(scored, n);
      }
    }
  }
}

// The embedded pair's reference figures: 511 tokens after `<s>`, 20,440 of them.
TEST(Windows, WithoutOverlapTheyTileTheText) {
  const std::vector<Window> windows = CutWindows(20440, 511, 511);
  ASSERT_EQ(windows.size(), 40u);
  for (size_t i = 0; i < windows.size(); ++i) {
    EXPECT_EQ(windows[i].begin, 511 * i);
    EXPECT_EQ(windows[i].first_scored, windows[i].begin);
  }
}

TEST(Windows, TheLastIsMovedBackToBeFull) {
  const std::vector<Window> windows = CutWindows(10, 4, 3);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[2].begin, 6u);
  const std::vector<Window> moved = CutWindows(9, 4, 4);
  ASSERT_EQ(moved.size(), 3u);
  EXPECT_EQ(moved[2].begin, 5u);
  EXPECT_EQ(moved[2].end, 9u);
  EXPECT_EQ(moved[2].first_scored, 8u);
}

TEST(Windows, RefusesWhatCutsNothing) {
  EXPECT_THROW(CutWindows(10, 0, 0), Error);
  EXPECT_THROW(CutWindows(10, 4, 0), Error);
  EXPECT_THROW(CutWindows(10, 4, 5), Error);
  EXPECT_TRUE(CutWindows(0, 4, 4).empty());
  EXPECT_EQ(CutWindows(3, SIZE_MAX, SIZE_MAX).size(), 1u);
}

}  // namespace
}  // namespace tare
