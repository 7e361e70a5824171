// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/text_stream.h"

#include <algorithm>

namespace tare {
namespace {

constexpr size_t kContext = 8;  // tokens before the first, of which its spelling may depend

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, const std::vector<int32_t>& after)
    : tokenizer_(tokenizer), tokens_(after.end() - std::min<ptrdiff_t>(kContext, std::ssize(after)), after.end()) {
  told_ = tokens_.size();
}

std::string TextStream::Grown() const {
  const std::string before = tokenizer_.Decode({tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(told_)});
  const std::string now = tokenizer_.Decode(tokens_);
  return now.starts_with(before) ? now.substr(before.size()) : now;
}

std::string TextStream::Add(int32_t token) {
  constexpr std::string_view kBroken = "\uFFFD";
  tokens_.push_back(token);
  const std::string grown = Grown();
  if (grown.empty() || grown.ends_with(kBroken)) return "";
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(told_));
  told_ = tokens_.size();
  return grown;
}

std::string TextStream::Rest() {
  const std::string grown = told_ < tokens_.size() ? Grown() : "";
  told_ = tokens_.size();
  return grown;
}

}  // namespace tare
