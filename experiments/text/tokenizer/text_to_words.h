// SPDX-License-Identifier: Apache-2.0
// How a tokenizer.json takes a text to its model: the normalizer changes it, the pre-tokenizer cuts it into words,
// which the model encodes one by one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tare::pipeline {

// The changes to a text before it is cut (tokenizers/src/normalizers).
class Normalizer {
 public:
  using Step = std::function<std::string(std::string_view)>;

  Normalizer() = default;  // none, as of null
  // Throws Error, naming the type, for a type that Tare does not support.
  Normalizer(const nlohmann::json& json, const std::string& where);

  bool empty() const { return steps_.empty(); }
  // Valid UTF-8 in, valid UTF-8 out. Throws Error if the text grows too much (steps.h).
  std::string Apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

struct Word {
  std::string_view text;
  bool begins_text = false;  // is at the start of the whole text
};

using WordVisitor = std::function<void(const Word&)>;

// tokenizers/src/pre_tokenizers
class PreTokenizer {
 public:
  // Gives the words that it makes of one, in order. A word's text lives while it is visited.
  using Step = std::function<void(const Word&, const WordVisitor&)>;

  PreTokenizer() = default;  // none, as of null
  // Throws Error, naming the type, for a type that Tare does not support.
  PreTokenizer(const nlohmann::json& json, const std::string& where);

  // Each word goes through all steps before the next is cut, so that memory does not grow with the text. Throws Error
  // if the text grows too much (steps.h).
  void ForEachWord(const Word& text, const WordVisitor& visit) const;
  // Whether the last step writes bytes in GPT-2's alphabet, which is left out, because the model takes the bytes.
  bool ends_in_bytes() const { return ends_in_bytes_; }

 private:
  std::vector<Step> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace tare::pipeline
