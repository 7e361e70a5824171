// SPDX-License-Identifier: Apache-2.0
// The perplexity convention: how a row of n tokens is cut into windows of at most m, so that each token is scored
// exactly once with as much context as its window allows.
//
//   windows begin at 0, s, 2s, ... (s the stride, 1 to m) while tokens remain; the last is moved back so that it is
//   full; a window scores the tokens that no window before it held
//
// so every scored token, except in the first window, has at least m - s tokens of its row before it in its window.
//
// A text with `<s>`: W positions are `<s>` and m = W - 1 tokens, `<s>` predicts a window's first token, and n tokens
// are scored. Without `<s>` (ids, taken as they are; each row on its own) m = W, and a window's first token has nothing
// that predicts it: with s <= m - 1 that is the row's very first token alone, and n - 1 are scored.
#pragma once

#include <cstddef>
#include <vector>

namespace tare {

struct Window {
  size_t begin = 0, end = 0;  // tokens [begin, end) of the row
  size_t first_scored = 0;    // of the row: the window scores [first_scored, end)
};

// No windows for no tokens.
std::vector<Window> CutWindows(size_t n, size_t tokens_per_window, size_t stride);

}  // namespace tare
