// SPDX-License-Identifier: Apache-2.0
// How far a long text is on its way to ids, wherever a text becomes ids: it takes seconds, and no caller passes a
// Progress so far down. What has become ids counts by characters, as normalizers change bytes (a blank to U+2581).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tare {

// Shown from now on, for texts of 1,000,000 characters or more: about so many of their bytes are done. All are when the
// text is, or when an error ends it. Null shows nothing.
using ShowEncoding = void(int64_t done, int64_t bytes);
void OnEncoding(ShowEncoding* show);

// While it lives, the text on this thread.
class EncodingProgress {
 public:
  explicit EncodingProgress(std::string_view text);
  EncodingProgress(const EncodingProgress&) = delete;
  ~EncodingProgress();

  // Counts a piece of the thread's text, if there is one. Throws Interrupted after RequestStop.
  static void Add(std::string_view piece);

 private:
  EncodingProgress* const outer_;
  const size_t bytes_, characters_;
  size_t done_ = 0, shown_ = 0;  // characters
};

}  // namespace tare
