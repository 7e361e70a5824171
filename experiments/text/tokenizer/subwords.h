// SPDX-License-Identifier: Apache-2.0
// The model of a tokenizer.json: a word to the ids of its pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tare::pipeline {

// What words are made of: bytes come under the pieces' spelling in GPT-2's alphabet.
enum class WordsOf { kCharacters, kBytes };

class Subwords {
 public:
  virtual ~Subwords() = default;
  // Not twice at once: words that came before are remembered.
  virtual void Encode(std::string_view word, std::vector<int32_t>* ids) const = 0;
  virtual std::optional<int32_t> Find(const std::string& piece) const = 0;
  // "" where the id is none of the model's.
  virtual const std::string& Piece(int32_t id) const = 0;
  virtual int32_t ids() const = 0;  // one more than the largest
};

// type BPE or Unigram; a file without a type is recognised by its keys. Throws Error for other types, by name, and for
// what does not fit together.
std::unique_ptr<Subwords> ParseSubwords(const nlohmann::json& json, WordsOf words, const std::string& where);

}  // namespace tare::pipeline
