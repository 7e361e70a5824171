// SPDX-License-Identifier: Apache-2.0
// The post-processor of a tokenizer.json: special tokens before and after the ids of one text
// (tokenizers/src/processors). Its rules for pairs of texts are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tare::pipeline {

struct PostProcessor {
  // null: none. Throws Error, naming the type, for a type that Tare does not support.
  PostProcessor(const nlohmann::json& json, const std::string& where);

  std::vector<int32_t> before, after;
};

}  // namespace tare::pipeline
