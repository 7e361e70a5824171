// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/subwords.h"

#include "experiments/text/tokenizer/bpe.h"
#include "experiments/text/tokenizer/steps.h"
#include "experiments/text/tokenizer/unigram.h"

namespace tare::pipeline {

std::unique_ptr<Subwords> ParseSubwords(const nlohmann::json& json, BpeLists lists, WordsOf words,
                                        const std::string& where) {
  if (!json.is_object()) Fail("{}: got {}, expected an object", where, json.type_name());
  const auto type = GetOr<std::string>(json, "type", json.contains("merges") ? "BPE" : "Unigram", where);
  if (type == "BPE") return std::make_unique<Bpe>(json, std::move(lists), words, where + ": BPE");
  if (type == "Unigram") return std::make_unique<Unigram>(json, words, where + ": Unigram");
  Fail("{}: got type {}, expected BPE or Unigram", where, type);
}

}  // namespace tare::pipeline
