// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/encoding_progress.h"

#include <algorithm>

#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kStep = 1'000'000;  // characters, some 0.1 s

ShowEncoding* show_encoding = nullptr;
thread_local EncodingProgress* current = nullptr;

}  // namespace

void OnEncoding(ShowEncoding* show) { show_encoding = show; }

EncodingProgress::EncodingProgress(std::string_view text)
    : outer_(current), bytes_(text.size()), characters_(CountCharacters(text)) {
  current = this;
}

EncodingProgress::~EncodingProgress() {
  current = outer_;
  if (shown_ > 0 && show_encoding != nullptr) show_encoding(static_cast<int64_t>(bytes_), static_cast<int64_t>(bytes_));
}

void EncodingProgress::Add(std::string_view piece) {
  ThrowIfStopped();
  if (current == nullptr || show_encoding == nullptr) return;
  EncodingProgress& text = *current;
  text.done_ += CountCharacters(piece);
  if (text.done_ < text.shown_ + kStep || text.done_ >= text.characters_) return;
  text.shown_ = text.done_;
  const double share = static_cast<double>(text.done_) / static_cast<double>(text.characters_);
  show_encoding(static_cast<int64_t>(share * static_cast<double>(text.bytes_)), static_cast<int64_t>(text.bytes_));
}

}  // namespace tare
