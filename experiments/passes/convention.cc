// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/convention.h"

#include <algorithm>

#include "quant/base/error.h"

namespace tare {

const ConventionInfo& InfoOf(Convention convention) {
  return *std::ranges::find(kConventions, convention, &ConventionInfo::convention);
}

Convention ConventionNamed(std::string_view name) {
  const auto info = std::ranges::find(kConventions, name, &ConventionInfo::name);
  if (info == std::end(kConventions)) FailUsage("--convention: got '{}', expected {}", name, ConventionNames());
  return info->convention;
}

std::string ConventionNames() {
  std::string names;
  for (const ConventionInfo& info : kConventions) {
    const bool last = &info + 1 == std::end(kConventions);
    names.append(names.empty() ? "" : last ? " or " : ", ").append(info.name);
  }
  return names;
}

}  // namespace tare
