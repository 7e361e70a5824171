// SPDX-License-Identifier: Apache-2.0
// How a text is cut at matches (SplitDelimiterBehavior of the tokenizers library), part by part, so that the parts of a
// long text are never all in memory.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tare::pipeline {

struct Part {
  size_t begin = 0, end = 0;
  bool is_match = false;
};

using PartVisitor = std::function<void(const Part&)>;

enum class Behaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
Behaviour ParseBehaviour(const nlohmann::json& json, const std::string& where);

// Takes the parts of a text in order, and gives `visit` the ranges that remain, none empty.
class Cut {
 public:
  Cut(Behaviour behaviour, PartVisitor visit) : behaviour_(behaviour), visit_(std::move(visit)) {}

  void Add(const Part& part);
  // After the last part.
  void End() const {
    if (held_) Give(*held_);
  }

 private:
  void Give(const Part& part) const {
    if (part.begin != part.end) visit_(part);
  }
  bool Joins(const Part& part) const;  // the part before it

  Behaviour behaviour_;
  PartVisitor visit_;
  std::optional<Part> held_;  // what the next part may join
  bool matched_ = false;      // the part before
};

}  // namespace tare::pipeline
