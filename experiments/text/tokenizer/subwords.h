// SPDX-License-Identifier: Apache-2.0
// The model of a tokenizer.json: turns a word into the ids of its pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "experiments/text/tokenizer/bpe_lists.h"

namespace tare::pipeline {

// Units of words. Bytes are passed as they are; pieces spell them in GPT-2's alphabet.
enum class WordsOf { kCharacters, kBytes };

class Subwords {
 public:
  virtual ~Subwords() = default;
  // One call at a time: earlier words are cached.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const { EncodeUpTo(SIZE_MAX, word, ids); }
  // The same; of a word of several parts it may end behind the part that completes `count` ids in the list.
  virtual void EncodeUpTo(size_t count, std::string_view word, std::vector<int32_t>* ids) const = 0;
  virtual std::optional<int32_t> Find(const std::string& piece) const = 0;
  // "" for an id that the model does not have.
  virtual const std::string& Piece(int32_t id) const = 0;
  virtual int32_t ids() const = 0;  // one more than the largest
};

// Type BPE or Unigram; a file without a type is recognised by its keys. Throws Error for other types, by name, and for
// contents that do not fit together.
std::unique_ptr<Subwords> ParseSubwords(const nlohmann::json& json, BpeLists lists, WordsOf words,
                                        const std::string& where);

}  // namespace tare::pipeline
