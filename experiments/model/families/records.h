// SPDX-License-Identifier: Apache-2.0
// Helpers to define a record as a changed copy of another:
//
//   constinit const Family kMistral = Changed(kLlama, [](Family& f) { f.name = "mistral"; f.read = Read; });
//   constexpr auto kLinear = Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).bias = nullptr; });
//   constexpr auto kVectors = Joined(kLlamaVectors, kLambdaVectors);
#pragma once

#include <algorithm>
#include <array>

#include "experiments/model/config/family.h"

namespace tare {

// A changed copy of the record or table.
template <typename Record, typename Change>
constexpr Record Changed(Record record, Change change) {
  change(record);
  return record;
}

// The places of several tables, in order.
template <typename Place, size_t... kCounts>
constexpr std::array<Place, (0 + ... + kCounts)> Joined(const std::array<Place, kCounts>&... tables) {
  std::array<Place, (0 + ... + kCounts)> all;
  auto end = all.begin();
  ((end = std::ranges::copy(tables, end).out), ...);
  return all;
}

// The place of a linear layer in the table, which must have it.
template <size_t kCount>
constexpr LinearPlace& At(std::array<LinearPlace, kCount>& places, Site weight) {
  return *std::ranges::find(places, weight, &LinearPlace::weight);
}

}  // namespace tare
