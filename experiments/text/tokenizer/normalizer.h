// SPDX-License-Identifier: Apache-2.0
// The normalizer of a tokenizer.json: the changes to a text before it is cut (tokenizers/src/normalizers).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tare::pipeline {

class Normalizer {
 public:
  using Step = std::function<std::string(std::string_view)>;

  // null: none. Throws Error, naming the type, for a type that Tare does not support.
  Normalizer(const nlohmann::json& json, const std::string& where);

  bool empty() const { return steps_.empty(); }
  // Valid UTF-8 in, valid UTF-8 out. Throws Error if the text grows too much (growth.h).
  std::string Apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace tare::pipeline
