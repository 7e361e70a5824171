// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/windows.h"

#include <algorithm>

#include "quant/base/error.h"

namespace tare {

std::vector<Window> CutWindows(size_t n, size_t tokens_per_window, size_t stride) {
  if (tokens_per_window == 0) Fail("windows: got 0 tokens per window, expected at least 1");
  if (stride == 0 || stride > tokens_per_window) {
    Fail("windows: got stride {}, expected 1 to {}, the tokens of a window", stride, tokens_per_window);
  }
  std::vector<Window> windows;
  const size_t length = std::min(n, tokens_per_window);
  for (size_t begin = 0, scored = 0; scored < n; begin += stride) {
    begin = std::min(begin, n - length);
    windows.push_back({begin, begin + length, scored});
    scored = begin + length;
  }
  return windows;
}

}  // namespace tare
