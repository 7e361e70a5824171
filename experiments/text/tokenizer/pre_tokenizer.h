// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer of a tokenizer.json: how a normalized text is cut into words, which the model takes one by one
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
  bool begins_text = false;  // nothing of the whole text comes before it
};

// Words, and the texts that steps made, which they point into.
struct Words {
  std::vector<Word> list;
  std::deque<std::string> made;
};

class PreTokenizer {
 public:
  using Step = std::function<void(Words*)>;

  // null: none. Throws Error for a type that Tare does not know, by its name.
  PreTokenizer(const nlohmann::json& json, const std::string& where);

  void Apply(Words* words) const;
  // Whether the last step writes bytes in GPT-2's alphabet. It is left out by Apply: the model takes the bytes.
  bool ends_in_bytes() const { return ends_in_bytes_; }

 private:
  std::vector<Step> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace tare::pipeline
