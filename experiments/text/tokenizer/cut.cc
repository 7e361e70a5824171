// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/cut.h"

#include <map>

#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare::pipeline {

Behaviour ParseBehaviour(const nlohmann::json& json, const std::string& where) {
  static const std::map<std::string, Behaviour> names{{"Removed", Behaviour::kRemoved},
                                                      {"Isolated", Behaviour::kIsolated},
                                                      {"MergedWithPrevious", Behaviour::kMergedWithPrevious},
                                                      {"MergedWithNext", Behaviour::kMergedWithNext},
                                                      {"Contiguous", Behaviour::kContiguous}};
  const auto found = json.is_string() ? names.find(json.get<std::string>()) : names.end();
  if (found == names.end())
    Fail("{}: behavior: got {}, expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", where,
         json.dump());
  return found->second;
}

bool Cut::Joins(const Part& part) const {
  if (behaviour_ == Behaviour::kContiguous) return part.is_match == matched_;
  if (behaviour_ == Behaviour::kMergedWithPrevious) return part.is_match && !matched_;
  return !part.is_match && matched_;
}

void Cut::Add(const Part& part) {
  if (behaviour_ == Behaviour::kIsolated) return Give(part);
  if (behaviour_ == Behaviour::kRemoved) return part.is_match ? void() : Give(part);
  const bool joins = Joins(part);
  matched_ = part.is_match;
  if (held_ && joins) {
    held_->end = part.end;
  } else {
    End();
    held_ = part;
  }
}

}  // namespace tare::pipeline
