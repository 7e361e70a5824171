// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer of a tokenizer.json: cuts a normalized text into words, which the model encodes one by one
// (tokenizers/src/pre_tokenizers).
#pragma once

#include <deque>
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

// Words, and the texts made by steps, which they point into.
struct Words {
  std::vector<Word> list;
  std::deque<std::string> made;
};

class PreTokenizer {
 public:
  using Step = std::function<void(Words*)>;

  // null: none. Throws Error, naming the type, for a type that Tare does not support.
  PreTokenizer(const nlohmann::json& json, const std::string& where);

  void Apply(Words* words) const;
  // Whether the last step writes bytes in GPT-2's alphabet. Apply leaves it out, because the model takes the bytes.
  bool ends_in_bytes() const { return ends_in_bytes_; }

 private:
  std::vector<Step> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace tare::pipeline
