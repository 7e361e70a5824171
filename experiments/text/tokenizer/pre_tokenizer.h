// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer of a tokenizer.json: cuts a normalized text into words, which the model encodes one by one
// (tokenizers/src/pre_tokenizers).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tare::pipeline {

struct Word {
  std::string_view text;
  bool begins_text = false;  // is at the start of the whole text
};

using WordVisitor = std::function<void(const Word&)>;

class PreTokenizer {
 public:
  // Gives the words that it makes of one, in order. A word's text lives while it is visited.
  using Step = std::function<void(const Word&, const WordVisitor&)>;

  // null: none. Throws Error, naming the type, for a type that Tare does not support.
  PreTokenizer(const nlohmann::json& json, const std::string& where);

  // Each word goes through all steps before the next is cut, so that memory does not grow with the text. Throws Error
  // if the text grows too much (growth.h).
  void ForEachWord(const Word& text, const WordVisitor& visit) const;
  // Whether the last step writes bytes in GPT-2's alphabet, which is left out, because the model takes the bytes.
  bool ends_in_bytes() const { return ends_in_bytes_; }

 private:
  std::vector<Step> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace tare::pipeline
