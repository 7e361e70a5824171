// SPDX-License-Identifier: Apache-2.0
// The decoder of a tokenizer.json: turns pieces into text (tokenizers/src/decoders).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tare::pipeline {

class Decoder {
 public:
  using Step = std::function<std::vector<std::string>(std::vector<std::string>)>;

  // null: pieces joined by spaces. Throws Error, naming the type, for a type that Tare does not support.
  Decoder(const nlohmann::json& json, const std::string& where);

  std::string Apply(std::vector<std::string> pieces) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace tare::pipeline
